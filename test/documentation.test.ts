import { readFileSync } from 'node:fs';
import test from 'ava';
import { parse } from 'yaml';
import { settingNames } from '../shared/config.ts';
import { parsePlanFile } from '../shared/plan-file.ts';

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
