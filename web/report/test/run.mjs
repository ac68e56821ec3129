// node test/run.mjs PROGRAM [FOLDER]: draws reports with the program and uses them in Chromium, as people do. Pictures of
// the pages go to FOLDER. CHROMIUM names another browser.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { chromium } from 'playwright-core';
import { checkLargePlan } from './large.mjs';
import { checkOtherParts } from './parts.mjs';
import { checkPlan } from './plan.mjs';

const program = resolve(process.argv[2]);
const pictures = process.argv[3] ? resolve(process.argv[3]) : null;
const folder = mkdtempSync(join(tmpdir(), 'pipesim-report-'));
const pipesim = (...words) => execFileSync(program, words, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
});

// Opens a page that must neither complain nor ask the network for anything.
async function open(file, scheme = 'light') {
  const page = await browser.newPage({ viewport: { width: 1500, height: 1000 }, colorScheme: scheme });
  page.complaints = [];
  page.on('console', (message) => {
    // Of this test, which reads pictures back.
    if (!message.text().includes('willReadFrequently')) page.complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => page.complaints.push(String(error.stack)));
  page.on('request', (request) => {
    if (!/^(file|data|blob):/.test(request.url())) page.complaints.push(`asked for ${request.url()}`);
  });
  await page.goto(`file://${join(folder, file)}`);
  await page.waitForSelector('html[data-ready]', { timeout: 60000 });
  return page;
}

const test = {
  pipesim,
  open,
  assert,
  bytes: (file) => statSync(join(folder, file)).size,
  write: (file, text) => writeFileSync(join(folder, file), text),
  picture: async (page, name) => pictures && page.screenshot({ path: join(pictures, name), fullPage: true }),
};

let failed = 0;
for (const [name, check] of Object.entries({ 'a plan': checkPlan, 'other parts': checkOtherParts, 'a large plan': checkLargePlan })) {
  try {
    await check(test);
    console.log(`report: ${name}: ok`);
  } catch (error) {
    failed += 1;
    console.log(`report: ${name}: FAILED: ${error.stack}`);
  }
}
await browser.close();
rmSync(folder, { recursive: true });
process.exit(failed ? 1 : 0);
