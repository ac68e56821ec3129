// A pipeline: everything that a reader does with mouse and keyboard.

// What is drawn on the timeline's canvas, as one number.
const drawn = (page) => page.evaluate(() => {
  const canvas = document.querySelector('.timeline canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let sum = 0;
  for (let i = 0; i < data.length; i += 4) sum = (sum * 31 + data[i] + 2 * data[i + 1] + 3 * data[i + 2]) % 1000000007;
  return sum;
});

// The point of the canvas with the color of the first kind of the legend.
const firstBar = (page) => page.evaluate(() => {
  const canvas = document.querySelector('.timeline canvas');
  const swatch = document.querySelector('.block .legend .swatch');
  const wanted = getComputedStyle(swatch).backgroundColor.match(/\d+/g).slice(0, 3).join();
  const context = canvas.getContext('2d');
  const ratio = devicePixelRatio;
  for (let y = 30; y < canvas.height / ratio; y += 3) {
    const { data } = context.getImageData(215 * ratio, y * ratio, 400, 1);
    for (let x = 0; x < 400; ++x) {
      if ([data[4 * x], data[4 * x + 1], data[4 * x + 2]].join() === wanted) return { x: 215 + x / ratio, y };
    }
  }
  return null;
});

async function useMouse({ assert }, page) {
  const canvas = page.locator('.timeline canvas');
  const bar = await firstBar(page);
  assert.ok(bar, 'a bar of the first kind is drawn');
  await canvas.hover({ position: bar });
  await page.waitForSelector('.tip:not([hidden])');
  const tip = await page.locator('.tip').innerText();
  assert.match(tip, /forward on gpu\d/);
  assert.match(tip, /takes/);
  assert.match(await page.locator('.held').innerText(), /^From .* on: .*[GM]B/);
  await canvas.click({ position: bar });
  assert.match(await page.locator('.details').innerText(), /forward on gpu\d/);
  const before = await drawn(page);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -300);
  await page.keyboard.up('Control');
  await page.waitForTimeout(200);
  assert.notEqual(await drawn(page), before, 'the wheel zooms');
  await page.mouse.move(10, 10);
}

async function useKeyboard({ assert }, page) {
  await page.keyboard.press('Escape');
  await page.locator('.timeline canvas').focus();
  const seen = new Set();
  for (const key of ['0', '+', '+', 'ArrowRight', '-', 'End', 'Home']) {
    await page.keyboard.press(key);
    await page.waitForTimeout(120);
    const now = await drawn(page);
    assert.ok(!seen.has(now), `${key} changes what is drawn`);
    seen.add(now);
  }
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('n');
  const first = await page.locator('.details strong').innerText();
  await page.keyboard.press('n');
  assert.notEqual(await page.locator('.details strong').innerText(), first, 'n goes to the next task');
  await page.keyboard.press('p');
  assert.equal(await page.locator('.details strong').innerText(), first, 'p goes back');
  await page.keyboard.press('/');
  await page.keyboard.type('update gpu2');
  await page.waitForFunction(() => /^\d[\d,]* tasks?/.test(document.querySelector('.found').textContent));
  await page.keyboard.press('Enter');
  assert.match(await page.locator('.details strong').innerText(), /update .*gpu2/);
  await page.keyboard.press('Escape');
  await page.keyboard.press('w');
  assert.doesNotMatch(await page.locator('.details strong').innerText(), /update/, 'w goes to what the task waited for');
}

async function useTables({ assert }, page) {
  const table = page.locator('.table').filter({ has: page.locator('h3', { hasText: /^Devices$/ }) });
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']).catch(() => {});
  await table.locator('button', { hasText: 'Copy' }).click();
  await table.locator('button', { hasText: 'Copied' }).waitFor();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(text, /^device\tstands for\tcompute/);
  assert.equal(text.split('\n').length, 5);
}

export async function checkPlan(test) {
  const { assert, open, pipesim, picture } = test;
  pipesim('simulate', '--model', 'gpt:batch=4', '--topology', 'p100-4x4:1', '--baseline', 'data-parallel', '--stages', '4',
    '--microbatches', '8', '-o', 'gpt.plan.json');
  pipesim('report', 'gpt.plan.json', '-o', 'gpt.html');
  const page = await open('gpt.html');
  const text = await page.locator('body').innerText();
  for (const title of ['Timeline', 'Memory', 'Pipeline', 'Topology', 'Stages', 'Devices', 'Links']) assert.match(text, new RegExp(title));
  assert.equal(await page.locator('.strip .row-label').count(), 4);
  assert.equal(await page.locator('.topology .vertex.device').count(), 4);
  await picture(page, 'plan-light.png');
  await useMouse(test, page);
  await useKeyboard(test, page);
  await useTables(test, page);
  const light = await drawn(page);
  await page.keyboard.press('t');
  await page.waitForTimeout(100);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  assert.notEqual(await drawn(page), light, 'the theme changes the drawing');
  await page.emulateMedia({ media: 'print' });
  assert.ok(!(await page.locator('.controls').first().isVisible()), 'paper has no buttons');
  assert.deepEqual(page.complaints, []);
  await page.close();
  const dark = await open('gpt.html', 'dark');
  assert.equal(await dark.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await picture(dark, 'plan-dark.png');
  assert.deepEqual(dark.complaints, []);
  await dark.close();
}
