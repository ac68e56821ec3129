// Searches, executions and studies, and several files side by side.

const STUDY = {
  pipesim_study: 1,
  axes: [{ name: 'devices', values: [8, 16, 32, 64] }, { name: 'network', values: ['slow', 'fast'] }],
  points: [8, 16, 32, 64].flatMap((devices, i) => ['slow', 'fast'].map((network, j) => (devices === 64 && network === 'slow'
    ? { at: [i, j], error: 'nothing fits' }
    : { at: [i, j], time_s: (80 / devices) * (1 + (j ? 0.02 : 0.1) * i), recipe: `dp${devices}`, tokens_per_s: 1e4 * devices, cost_per_hour: devices * (j ? 2.5 : 2) }))),
  crossovers: [{ axis: 'devices', value: 32, from: 'dp16', to: 'tp2,dp16' }],
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

export async function checkOtherParts({ assert, open, pipesim, picture, write }) {
  write('study.json', JSON.stringify(STUDY));
  write('execution.json', JSON.stringify(EXECUTION));
  for (const seed of ['1', '2']) {
    pipesim('search', '--model', 'lenet', '--topology', 'p100-4x4:1', '--algorithm', 'mcmc', '--proposals', '3000', '--seed', seed, '--search-log',
      `log${seed}.csv`);
  }
  for (const layers of ['2', '4']) {
    pipesim('simulate', '--model', `gpt:batch=4,layers=${layers}`, '--topology', 'p100-4x4:1', '--baseline', 'data-parallel', '-o', `${layers}.plan.json`);
  }
  pipesim('report', '2.plan.json', '4.plan.json', 'log1.csv', 'log2.csv', 'execution.json', 'study.json', '-o', 'all.html');
  const page = await open('all.html');
  const tabs = page.locator('[role=tab]');
  assert.equal(await tabs.count(), 6);
  const expected = [/Timeline/, /Timeline/, /Search/, /Search/, /Operators that differ most/, /Pareto front/];
  for (let i = 0; i < 6; ++i) {
    await tabs.nth(i).click();
    assert.match(await page.locator('article:not([hidden])').innerText(), expected[i]);
  }
  const points = page.locator('article:not([hidden]) .chart [tabindex]');
  await points.first().focus();
  assert.match(await page.locator('.tip').innerText(), /devices|before/);
  assert.equal(await page.locator('article:not([hidden]) .best').count() > 1, true);
  await picture(page, 'study.png');
  await tabs.nth(4).click();
  assert.match(await page.locator('article:not([hidden]) .axis').first().textContent(), /iteration/);
  await picture(page, 'execution.png');
  await tabs.nth(2).click();
  await picture(page, 'search.png');
  await page.keyboard.press('ArrowRight');
  assert.equal(await tabs.nth(3).getAttribute('aria-selected'), 'true', 'arrow keys change tabs');
  await page.keyboard.press('s');
  assert.equal(await page.locator('article:not([hidden])').count(), 6);
  assert.equal(await page.locator('.together .curve').count(), 2, 'searches are drawn together');
  await page.waitForTimeout(300);
  await picture(page, 'side-by-side.png');
  assert.deepEqual(page.complaints, []);
  await page.close();
}
