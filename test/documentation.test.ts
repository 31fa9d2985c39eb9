import { existsSync, readdirSync, readFileSync } from 'node:fs';
import test from 'ava';
import { parsePlanFile, planWarnings } from '../shared/plan-file/plan-file.ts';
import { settingDefaults, settingNames } from '../shared/process/settings.ts';
import { itemBytes } from '../workers/memory/item-bytes.ts';
import { capacityPageFile, withCapacity } from './bench/capacity.ts';
import { chartsOf } from './bench/charts/charts.ts';
import { drawChart } from './bench/charts/draw-chart.ts';
import { withResults } from './bench/comparison/documents.ts';
import { resultsSchema } from './bench/comparison/results.ts';
import { withBytes } from './bytes/bytes-page.ts';
import { allRights, clusterRights, replyRights, sentinelRights } from './stack/redis-rights.ts';
import { byId, declaredFaults, isId, isMeant } from './support/faults/declared-faults.ts';
import { notRun } from './support/faults/not-run.ts';
import { notShown, pageFile, tableIn, tableOf, whenDown } from './support/faults/when-down.ts';

const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const settings = [...new Set([...settingNames.ingress, ...settingNames.worker])];

/** The rows of the table of settings: names, the processes that read them, and their defaults. */
function documentedSettings() {
  const rows = read('ingress/documentation/configuration.md')
    .split('\n')
    .filter((line) => /^\| `[A-Z_]+`/.test(line))
    .map((line) => line.split('|').map((cell) => cell.replaceAll('`', '').trim()));
  return rows.flatMap(([, names = '', process = '', defaults = '']) => {
    const all = names.split(', ');
    // Several settings in a row have as many defaults, in the same order.
    return all.map((name, index) => ({ name, process, text: all.length > 1 ? defaults.split(', ')[index] : defaults }));
  });
}

/** `both`: ingress and worker. `all`: these and `npm run reconcile`. */
function processOf(name: string): string {
  const [inIngress, inWorker, inReconcile] = [
    settingDefaults.ingress,
    settingDefaults.worker,
    settingDefaults.reconcile,
  ].map((defaults) => defaults.has(name));
  if (inReconcile) return 'all';
  if (inIngress && inWorker) return 'both';
  return inIngress ? 'ingress' : 'worker';
}

/** Each default with its process, or one default for all of them. */
function defaultOf(name: string): string {
  const [ingress, worker] = [settingDefaults.ingress.get(name), settingDefaults.worker.get(name)];
  const differ = ingress !== undefined && worker !== undefined && ingress !== worker;
  return differ ? `${ingress || 'optional'} ingress, ${worker || 'optional'} worker` : (ingress ?? worker ?? '');
}

test('configuration.md lists exactly the settings that exist, with their processes and defaults', (t) => {
  const documented = documentedSettings();
  t.deepEqual(documented.map(({ name }) => name).toSorted(), settings.toSorted());
  for (const { name, process, text } of documented) {
    t.is(process, processOf(name), name);
    const expected = defaultOf(name);
    if (expected !== '') t.is(text, expected, name);
    else t.notRegex(text ?? '', /^(required|\d*)$/, `${name} depends on something else`);
  }
});

test('the README lists exactly the required settings', (t) => {
  const rows = [...read('README.md').matchAll(/^\| `([A-Z_]+)` \| (\w+) \|/gm)];
  const listed = rows.map(([, name = '', process = '']) => ({ name, process }));
  const required = settings.flatMap((name) => {
    const by = [settingDefaults.ingress.get(name), settingDefaults.worker.get(name)];
    if (!by.includes('required')) return [];
    return [{ name, process: by.every((one) => one === 'required') ? 'all' : 'ingress' }];
  });
  const byName = (one: { name: string }, other: { name: string }) => one.name.localeCompare(other.name);
  t.deepEqual(listed.toSorted(byName), required.toSorted(byName));
});

test('the README has at most 160 lines, and a picture of the console in both colour schemes', (t) => {
  const text = read('README.md');
  t.true(text.split('\n').length <= 161);
  t.regex(text, /<source media="\(prefers-color-scheme: dark\)" srcset="\.github\/console-dark\.png">/);
  t.regex(text, /<img alt="[^"]+" src="\.github\/console-light\.png">/);
});

test('every link of the README and of the files in .github leads to a file', (t) => {
  for (const file of [
    'README.md',
    '.github/CONTRIBUTING.md',
    '.github/SECURITY.md',
    '.github/CODE_OF_CONDUCT.md',
    'ingress/documentation/changelog.md',
  ]) {
    for (const [, link = ''] of read(file).matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)) {
      if (!link.startsWith('https:')) t.true(existsSync(new URL(link, new URL(`../${file}`, import.meta.url))), link);
    }
  }
});

test('.env.example has every setting: required ones are set, optional ones are commented out with their default', (t) => {
  const lines = [...read('.env.example').matchAll(/^(# )?([A-Z_]+)=(.*)$/gm)]
    .map(([, comment, name = '', value = '']) => ({ name, value, isRequired: comment === undefined }))
    .filter(({ name }) => name !== 'CLOUD_API_KEY');
  t.deepEqual([...new Set(lines.map(({ name }) => name))].toSorted(), settings.toSorted());
  for (const [name, found] of Map.groupBy(lines, (line) => line.name)) {
    const defaults = [settingDefaults.ingress.get(name), settingDefaults.worker.get(name)].filter(
      (one) => one !== undefined,
    );
    const shown = found.map(({ value, isRequired }) => (isRequired ? 'required' : value));
    t.deepEqual(shown.toSorted(), [...new Set(defaults)].toSorted(), name);
  }
});

test('the page for operators explains exactly the metrics that exist', (t) => {
  const written = ['ingress', 'workers', 'shared']
    .flatMap((folder) =>
      readdirSync(new URL(`../${folder}`, import.meta.url), { recursive: true }).map((name) => `${folder}/${name}`),
    )
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => [...read(name).matchAll(/'(svc_[a-z_]+)'/g)].map(([, metric = '']) => metric));
  const [, table = ''] = read('ingress/documentation/monitoring.md').split('\n## Metrics\n');
  const [rows = ''] = table.split('\n## ');
  const explained = [...rows.matchAll(/`(svc_\w+)`/g)].map(([, metric = '']) => metric);
  t.true(explained.length > 30);
  t.deepEqual(explained.toSorted(), [...new Set(written)].toSorted());
});

test('the service accepts every plan file that is shipped or shown, without a warning except of API keys', (t) => {
  const pages = ['configuration', 'kubernetes'].map((name) => read(`ingress/documentation/${name}.md`));
  const shown = pages.flatMap((page) =>
    [...page.matchAll(/^```yaml plans?\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text),
  );
  t.is(shown.length, 2);
  const shipped = ['ingress/deployment/plans.example.yaml', 'test/stack/container-plans/plans.yaml'].map(read);
  for (const text of [...shipped, ...shown]) {
    const parsed = parsePlanFile(text.replaceAll('{{base_url}}', 'http://127.0.0.1:8080'));
    if ('issues' in parsed) return t.deepEqual(parsed.issues, []);
    t.deepEqual(planWarnings(parsed.planFile), []);
  }
});

test('each row about compatibility names a file that has its versions, or the distribution that they are from', (t) => {
  const lines = read('ingress/documentation/compatibility.md')
    .split('\n')
    .filter((line) => line.startsWith('| '));
  const [, ...tested] = lines.map((line) =>
    line
      .split('|')
      .map((cell) => cell.trim())
      .slice(1),
  );
  t.true(tested.length > 15);
  for (const [part = '', versions = '', how = '', file = ''] of tested) {
    const text = Array.from(file.matchAll(/`(.+?)`/g), ([, path = '']) => read(path)).join();
    if (versions.includes('Debian')) continue;
    for (const version of `${versions} ${how}`.match(/\d+(\.\d+){2,}/g) ?? [])
      t.true(text.includes(version) || text.includes(version.replaceAll('.', '\\.')), `${part} ${version}`);
  }
});

test('the table of failures is the one that the fault tests write, and each row has a test', (t) => {
  t.is(tableIn(read(pageFile)), tableOf(whenDown));
  const ids = declaredFaults().map(({ id }) => id);
  for (const { unavailable, shownBy } of whenDown) t.true(shownBy.length > 0, unavailable);
  const results = ids.map((id) => ({ id, verdict: 'ok' as const }));
  t.deepEqual(notShown(whenDown, { results, declared: ids }), [], 'there are no such faults');
});

test('the page about Redis names exactly the rights with which the service is tested', (t) => {
  const [, section = ''] = read('ingress/documentation/redis.md').split('\n## Rights of the user\n');
  const [rights = ''] = section.split('\n## ');
  const [first = [], second = []] = [...rights.matchAll(/```sh rights\n([^`]*)```/g)].map(([, block = '']) =>
    commandsIn(block),
  );
  t.deepEqual(first, allRights);
  t.deepEqual(second, [...replyRights]);
  t.deepEqual(commandsIn(rights.split('```').at(-1) ?? ''), [...clusterRights, ...sentinelRights]);
});

const commandsIn = (text: string) => [...text.matchAll(/\+([a-z]+(?:\|[a-z-]+)?)/g)].map(([, command = '']) => command);

test('the bytes of the page for operators, and its example of the calculator, are those that were measured', (t) => {
  const page = read('ingress/documentation/scaling.md');
  t.is(withBytes(page, itemBytes), page);
});

test('each of the faults 1 to 27, and each fault of batches, has a test or a reason why it is not run, and ids are unique', (t) => {
  const listed = [...declaredFaults(), ...notRun];
  const ids = listed.map(({ id }) => id);
  t.deepEqual(
    ids.filter((id) => !isId(id)),
    [],
  );
  t.deepEqual([...new Set(ids)].toSorted(byId), ids.toSorted(byId));
  const numbers = Array.from({ length: 27 }, (_, index) => String(index + 1));
  t.deepEqual(
    [...numbers, 'A', 'B'].filter((number) => !ids.some((id) => isMeant(id, number))),
    [],
  );
  for (const { id, done, promised } of listed) t.true(done !== '' && promised !== '', id);
});

test('every declared fault is found', (t) => {
  const declared = declaredFaults();
  const byFile = Map.groupBy(declared, ({ file }) => file);
  const files = readdirSync(new URL('./faults', import.meta.url)).filter((name) =>
    /\.(test|slow|nightly)\.ts$/.test(name),
  );
  for (const name of files) {
    const text = read(`test/faults/${name}`);
    const count = [...text.matchAll(/\bpromised:/g)].length;
    t.is(byFile.get(`test/faults/${name}`)?.length ?? 0, count, name);
  }
});

test('the figures and charts of the page about benchmarks are those of the stored results', (t) => {
  const results = resultsSchema.parse(JSON.parse(read('test/bench/results/results.json')));
  t.true(results.runs.length > 0);
  const page = read('ingress/documentation/benchmarks.md');
  t.is(withResults(page, results), page);
  const capacityPage = read(capacityPageFile);
  t.is(withCapacity(capacityPage, results), capacityPage);
  for (const [name, chart] of Object.entries(chartsOf(results))) {
    t.is(drawChart(chart), read(`test/bench/results/${name}`));
    t.true(page.includes(`(../../test/bench/results/${name})`), `${name} is linked`);
  }
});
