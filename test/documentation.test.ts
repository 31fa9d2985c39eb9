import { readdirSync, readFileSync } from 'node:fs';
import test from 'ava';
import { parse } from 'yaml';
import { settingNames } from '../shared/config.ts';
import { parsePlanFile } from '../shared/plan-file.ts';
import { chartsOf } from './bench/charts/charts.ts';
import { drawChart } from './bench/charts/draw-chart.ts';
import { withFigures } from './bench/comparison/readme.ts';
import { resultsSchema } from './bench/comparison/results.ts';
import { byId, declaredFaults, isId, isMeant } from './support/faults/declared-faults.ts';
import { notRun } from './support/faults/not-run.ts';
import { notShown, tableIn, tableOf, whenDown } from './support/faults/when-down.ts';

const read = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');
const settings = [...new Set([...settingNames.ingress, ...settingNames.worker])];

test('every setting stands in the table of the README and in .env.example, and nothing else does', (t) => {
  const rows = read('README.md')
    .split('\n')
    .filter((line) => /^\| `[A-Z_]+`/.test(line));
  const named = rows.flatMap((row) => row.split('|')[1]?.match(/[A-Z_]{3,}/g) ?? []);
  t.deepEqual(named.toSorted(), settings.toSorted());

  const example = [...read('.env.example').matchAll(/^(?:# )?([A-Z_]+)=/gm)].map(([, name]) => name);
  t.deepEqual([...new Set(example)].filter((name) => name !== 'CLOUD_API_KEY').toSorted(), settings.toSorted());
});

test('the plan file in the README is one that the service takes', (t) => {
  const [, yaml = ''] = /```yaml\n(.*?)```/s.exec(read('README.md')) ?? [];
  t.true('planFile' in parsePlanFile(yaml));
});

test('the plan file in docker-compose.yml is one that the service takes', (t) => {
  const { configs } = parse(read('docker-compose.yml'), { merge: true });
  const parsed = parsePlanFile(configs.plans.content);
  t.deepEqual('faults' in parsed ? parsed.faults : [], []);
});

test('containers get only settings that exist, no secret from the file, and do not run as root', (t) => {
  const { services } = parse(read('docker-compose.yml'), { merge: true });
  for (const [name, known] of [
    ['ingress', settingNames.ingress],
    ['worker', settingNames.worker],
  ] as const) {
    const { environment, user, healthcheck } = services[name];
    t.deepEqual(
      Object.keys(environment).filter((setting) => !known.includes(setting)),
      [],
    );
    t.is(user, 'node');
    t.truthy(healthcheck.test);
  }
  for (const secret of ['KEY_PEPPER', 'GUEST_KEY_SECRET']) t.regex(services.ingress.environment[secret], /^\$\{\w+:\?/);
});

test('the table of what fails is that of the tests which show it, and each row has one', (t) => {
  t.is(tableIn(read('README.md')), tableOf(whenDown));
  const ids = declaredFaults().map(({ id }) => id);
  for (const { away, shownBy } of whenDown) t.true(shownBy.length > 0, away);
  const told = ids.map((id) => ({ id, verdict: 'ok' as const }));
  t.deepEqual(notShown(whenDown, { told, declared: ids }), [], 'there are no such faults');
});

test('each of the faults 1 to 24, and batches, has a test or a reason why it is not run; no two have one id', (t) => {
  const listed = [...declaredFaults(), ...notRun];
  const ids = listed.map(({ id }) => id);
  t.deepEqual(
    ids.filter((id) => !isId(id)),
    [],
  );
  t.deepEqual([...new Set(ids)].toSorted(byId), ids.toSorted(byId));
  const numbers = Array.from({ length: 24 }, (_, index) => String(index + 1));
  t.deepEqual(
    [...numbers, 'A', 'B'].filter((number) => !ids.some((id) => isMeant(id, number))),
    [],
  );
  for (const { id, done, promised } of listed) t.true(done !== '' && promised !== '', id);
});

test('no fault is declared in a way that the list does not see', (t) => {
  const declared = declaredFaults();
  const byFile = Map.groupBy(declared, ({ file }) => file);
  const files = readdirSync(new URL('./faults', import.meta.url)).filter((name) => /\.(test|long)\.ts$/.test(name));
  for (const name of files) {
    const text = read(`test/faults/${name}`);
    const count = [...text.matchAll(/\bpromised:/g)].length;
    t.is(byFile.get(`test/faults/${name}`)?.length ?? 0, count, name);
    if (name.endsWith('.long.ts')) t.true(count > 0, `${name} is run by nobody`);
  }
});

test('the figures in the README and its charts are those of the results that are kept beside them', (t) => {
  const results = resultsSchema.parse(JSON.parse(read('test/bench/results/results.json')));
  t.true(results.runs.length > 0);
  t.is(withFigures(read('README.md'), results), read('README.md'));
  for (const [name, chart] of Object.entries(chartsOf(results))) {
    t.is(drawChart(chart), read(`test/bench/results/${name}`));
    t.true(read('README.md').includes(`(test/bench/results/${name})`), `${name} is shown`);
  }
});
