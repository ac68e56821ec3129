// node build.mjs [--check]: bundles src/ into the one file that pipesim is built with. With --check nothing is
// written: the exit status tells whether the file is what src/ makes.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const template = join(here, '../../tools/render/page/template.html');

async function bundle(entry, loader) {
  const result = await build({
    entryPoints: [join(here, 'src', entry)],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: ['chrome103', 'firefox113', 'safari16.4'],
    charset: 'ascii',
    legalComments: 'none',
    loader,
  });
  return result.outputFiles[0].text.trimEnd();
}

function filled(page, place, text) {
  const parts = page.split(place);
  if (parts.length !== 2) throw new Error(`src/page.html must have one ${place}`);
  return parts.join(text);
}

// "</script" inside a script would end it.
const script = (await bundle('main.js')).replaceAll('</script', '<\\/script');
const style = await bundle('style.css', { '.css': 'css' });
let page = readFileSync(join(here, 'src/page.html'), 'utf8');
page = filled(page, '/*STYLE*/', style);
page = filled(page, '/*SCRIPT*/', script);
if (/[^\x00-\x7f]/.test(page)) throw new Error('the template has bytes that are not ASCII');

if (process.argv.includes('--check')) {
  if (readFileSync(template, 'utf8') !== page) {
    console.error('tools/render/page/template.html is not what web/report makes; write it with: tools/report-page');
    process.exit(1);
  }
} else {
  writeFileSync(template, page);
  console.error(`tools/render/page/template.html: ${page.length} bytes`);
}
