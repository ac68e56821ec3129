// Searches, executions and studies, and several files side by side.

const STUDY = {
  pipesim_study: 1,
  arguments: [],
  plans: 'recipes',
  objective: '',
  model: 'lenet',
  model_fingerprint: '0',
  axes: [{ name: 'nodes', values: ['1', '2', '4', '8'] }, { name: 'network', values: ['slow', 'fast'] }],
  points: [1, 2, 4, 8].flatMap((nodes, i) => ['slow', 'fast'].map((network, j) => (nodes === 8 && network === 'slow'
    ? { at: [i, j], error: 'nothing fits' }
    : {
        at: [i, j], time_s: (10 / nodes) * (1 + (j ? 0.02 : 0.1) * i), samples_per_s: nodes / (1 + (j ? 0.02 : 0.1) * i),
        recipe: `dp${8 * nodes}`, kind: nodes < 4 ? 'data-parallel' : 'tp2', devices: 8 * nodes, memory_bytes: 1e9, fits: true,
        tokens_per_s: 1e4 * nodes, mfu: 0.5, price_per_hour: nodes * (j ? 20 : 16),
      }))),
  crossovers: [{ axis: 'nodes', before: [1, 1], low: '2', high: '3', from: 'data-parallel', to: 'tp2' }],
};

const EXECUTION = {
  model: 'lenet', topology: 'cpu', backend: 'cpu', devices: 2, ranks: 1, predicted_s: 0.0038,
  measured_s: { median: 0.0041, low: 0.004, high: 0.0043 }, error: -0.073,
  operators: [
    { name: 'conv1', tasks: 6, predicted_s: 0.001, measured_s: 0.0012 },
    { name: 'fc1', tasks: 6, predicted_s: 0.002, measured_s: 0.0013 },
  ],
  links: [{ name: 'cpu0 -> cpu1', tasks: 4, predicted_s: 0.0001, measured_s: 0.0002 }],
  memory: [{ device: 'cpu0', predicted_bytes: 1000000, measured_bytes: 1100000, workspace_bytes: 4096 }],
};

// What `execute --trace` writes: a pass that took thrice as long, and a transfer.
const slice = (tid, name, cat, ts, dur) => ({ ph: 'X', name, cat, pid: tid, tid, ts, dur });
const thread = (tid, process) => [['process_name', process], ['thread_name', 'compute']].map(([name, text]) =>
  ({ ph: 'M', name, pid: tid, tid, args: { name: text } }));
const TRACE = {
  traceEvents: [
    ...thread(0, 'cpu0 predicted'), ...thread(1, 'cpu0 measured'),
    slice(0, 'conv1 forward of microbatch 1', 'forward', 0, 100), slice(1, 'conv1 forward of microbatch 1', 'forward', 0, 300),
    slice(0, 'x from cpu0 to cpu1', 'forward-transfer', 100, 50), slice(1, 'x from cpu0 to cpu1', 'forward-transfer', 300, 20),
  ],
};

async function checkTrace({ assert, picture }, page) {
  const shown = page.locator('article:not([hidden])');
  assert.match(await shown.innerText(), /Timeline: predicted and measured[\s\S]*conv1 forward/);
  await shown.locator('canvas').hover({ position: { x: 300, y: 33 } });
  assert.match(await page.locator('.tip').innerText(), /on cpu0, predicted[\s\S]*measured 200 us \(200 %\) longer than predicted/);
  await shown.locator('.controls select').selectOption('measured');
  assert.equal(await shown.locator('canvas').evaluate((c) => Math.round(c.height / devicePixelRatio)), 24 + 2 * 18 + 2);
  await picture(page, 'execution-timeline.png');
}

async function checkStudy({ assert, picture }, page) {
  const shown = page.locator('article:not([hidden])');
  assert.equal(await shown.locator('.crossover-mark').count(), 1, 'a crossover of one curve');
  assert.equal(await shown.locator('.map td strong').count(), 7, 'a kind of plan for each point');
  assert.equal(await shown.locator('.best').count() > 1, true);
  assert.match(await shown.innerText(), /time against cost[\s\S]*time against devices/);
  const points = shown.locator('.chart [tabindex]');
  await points.first().focus();
  assert.match(await page.locator('.tip').innerText(), /nodes 1[\s\S]*scaling 100 %/);
  await shown.locator('.controls select').first().selectOption({ label: 'scaling efficiency' });
  assert.match(await shown.locator('.axis').first().textContent(), /100 %/);
  await picture(page, 'study.png');
}

export async function checkOtherParts(test) {
  const { assert, open, pipesim, picture, write } = test;
  write('study.json', JSON.stringify(STUDY));
  write('execution.json', JSON.stringify(EXECUTION));
  write('trace.json', JSON.stringify(TRACE));
  for (const seed of ['1', '2']) {
    pipesim('search', '--model', 'lenet', '--topology', 'p100-4x4:1', '--algorithm', 'mcmc', '--proposals', '3000', '--seed', seed, '--search-log',
      `log${seed}.csv`);
  }
  for (const layers of ['2', '4']) {
    pipesim('simulate', '--model', `gpt:batch=4,layers=${layers}`, '--topology', 'p100-4x4:1', '--baseline', 'data-parallel', '-o', `${layers}.plan.json`);
  }
  pipesim('report', '2.plan.json', '4.plan.json', 'log1.csv', 'log2.csv', 'execution.json', 'study.json', 'trace.json', '-o', 'all.html');
  const page = await open('all.html');
  const tabs = page.locator('[role=tab]');
  assert.equal(await tabs.count(), 7);
  const expected = [/Timeline/, /Timeline/, /Search/, /Search/, /Operators that differ most/, /Pareto front/];
  for (const i of [0, 1, 2, 3, 4, 5]) {
    await tabs.nth(i).click();
    assert.match(await page.locator('article:not([hidden])').innerText(), expected[i]);
  }
  await checkStudy(test, page);
  await tabs.nth(6).click();
  await checkTrace(test, page);
  await tabs.nth(4).click();
  assert.match(await page.locator('article:not([hidden]) .axis').first().textContent(), /iteration/);
  await picture(page, 'execution.png');
  await tabs.nth(2).click();
  await picture(page, 'search.png');
  await page.keyboard.press('ArrowRight');
  assert.equal(await tabs.nth(3).getAttribute('aria-selected'), 'true', 'arrow keys change tabs');
  await page.keyboard.press('s');
  assert.equal(await page.locator('article:not([hidden])').count(), 7);
  assert.equal(await page.locator('.together .curve').count(), 2, 'searches are drawn together');
  await page.waitForTimeout(300);
  await picture(page, 'side-by-side.png');
  assert.deepEqual(page.complaints, []);
  await page.close();
}
