import { Ajv2020 } from 'ajv/dist/2020.js';
import test from 'ava';
import { parse } from 'yaml';
import { z } from 'zod';
import { settingNames } from '../../shared/process/settings.ts';
import {
  chartFolder,
  pageFile,
  readText,
  renderedFile,
  renderedText,
  valuesOnPage,
  withObjects,
} from './chart-page.ts';

const page = readText(pageFile);
const rendered = readText(renderedFile);
const { values, plans, further } = valuesOnPage(page);

type Values = { [name: string]: unknown };
const valuesSchema = z.record(z.string(), z.unknown());
const schema = valuesSchema.parse(JSON.parse(readText(`${chartFolder}/values.schema.json`)));
const defaults = valuesSchema.parse(parse(readText(`${chartFolder}/values.yaml`)));
const validate = new Ajv2020({ allErrors: true, strictTypes: false, allowMatchingProperties: true }).compile(schema);

const isMap = (value: unknown): value is Values => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Merges values as Helm does: maps are merged, everything else is replaced, and null removes a value. */
function merged(own: Values, more: Values): Values {
  const result: Values = { ...own };
  for (const [name, value] of Object.entries(more)) {
    const before = own[name];
    result[name] = isMap(before) && isMap(value) ? merged(before, value) : value;
    if (value === null && name in own) delete result[name];
  }
  return result;
}

const onPage = merged(merged(defaults, valuesSchema.parse(parse(values))), { planFile: { text: plans } });

/** The places of faults in these values, used with those of the page. */
function faultsOf(more: unknown): string[] {
  validate(merged(onPage, valuesSchema.parse(more)));
  return (validate.errors ?? []).map(({ instancePath, params }) =>
    [instancePath, params.additionalProperty].filter(Boolean).join(' '),
  );
}

test('the file with the output of the chart was made from this chart and from the values of the page, which shows its objects', (t) => {
  const output = rendered.split('\n').slice(2).join('\n');
  t.is(rendered, renderedText(output, page), 'run: npm run chart -- --write');
  t.is(page, withObjects(page, output), 'run: npm run chart -- --write');
});

test('the version of the chart and of its image is that of the package', (t) => {
  const { version } = z.object({ version: z.string() }).parse(JSON.parse(readText('package.json')));
  t.like(parse(readText(`${chartFolder}/Chart.yaml`)), { version, appVersion: version });
});

test('the chart takes every setting of a process that is not secret, except those that it sets, and no other', (t) => {
  const propertiesSchema = z.looseObject({ properties: z.record(z.string(), z.unknown()) });
  const namesAt = (...path: string[]) =>
    Object.keys(
      propertiesSchema.parse(path.reduce<unknown>((at, name) => valuesSchema.parse(at)[name], schema)).properties,
    ).toSorted();
  const chosen = ['PLAN_FILE', 'OPS_HOST', 'OPS_PORT', 'HOST', 'PORT', 'POOLS'];
  const secret = [
    'REDIS_URL',
    'REPLY_REDIS_URL',
    'DATABASE_URL',
    'KEY_PEPPER',
    'GUEST_KEY_SECRET',
    'WEBHOOK_SECRET_KEY',
  ];
  const possible = (names: readonly string[]) =>
    names.filter((name) => ![...chosen, ...secret].includes(name)).toSorted();
  t.deepEqual(namesAt('properties', 'ingress', 'properties', 'settings'), possible(settingNames.ingress));
  t.deepEqual(namesAt('$defs', 'pool', 'properties', 'settings'), possible(settingNames.worker));
  const both = settingNames.ingress.filter((name) => settingNames.worker.includes(name));
  t.deepEqual(namesAt('properties', 'settings'), possible(both));
});

test('values.yaml has every value that the schema has, each with a comment', (t) => {
  const lines = readText(`${chartFolder}/values.yaml`).split('\n');
  const isCommented = (line: string, index: number) =>
    lines[index - 1]?.startsWith(`${/^ */.exec(line)?.[0]}# `) === true;
  const inItems = (index: number) => {
    const depthOf = (line: string) => /^ */.exec(line)?.[0].length ?? 0;
    const outer = lines.slice(0, index).findLast((line) => depthOf(line) < depthOf(lines[index] ?? '') && line !== '');
    return /^ *- /.test(outer ?? '');
  };
  const names = [...lines.entries()].filter(([index, line]) => /^ *\w+:/.test(line) && !inItems(index));
  t.true(names.length > 80);
  t.deepEqual(
    names.filter(([index, line]) => !isCommented(line, index)).map(([, line]) => line),
    [],
  );
  const missing: string[] = [];
  const walk = (found: unknown, own: unknown, path: string) => {
    const { properties = {} } = z.looseObject({ properties: valuesSchema.optional() }).parse(found);
    for (const [name, below] of Object.entries(properties)) {
      if (name.toUpperCase() === name || name === 'global') continue; // a setting, and what Helm adds
      if (!isMap(own) || !(name in own)) missing.push(`${path}/${name}`);
      else walk(below, own[name], `${path}/${name}`);
    }
  };
  walk(schema, defaults, '');
  t.deepEqual(missing, []);
  const pool = z.looseObject({ properties: valuesSchema }).parse(valuesSchema.parse(schema.$defs).pool);
  t.deepEqual(
    [...Object.keys(pool.properties), 'pools'].toSorted(),
    Object.keys(valuesSchema.parse(defaults.workers)).toSorted(),
  );
});

test('the values of the page are right, and each further ones with them', (t) => {
  t.deepEqual(faultsOf({}), []);
  t.true(further.length >= 4);
  for (const text of further) t.deepEqual(faultsOf(parse(text)), [], text);
});

test('without values, the required ones are named', (t) => {
  validate(defaults);
  const places = new Set((validate.errors ?? []).map(({ instancePath }) => instancePath));
  for (const place of [
    '/image/repository',
    '/ingress/settings/BASE_URL',
    '/ingress/settings/AUTH_URL',
    '/planFile/text',
  ])
    t.true(places.has(place), place);
});

const wrong: [unknown, string][] = [
  [{ replicas: 3 }, 'replicas'],
  [{ settings: { LOG_LEVELS: 'info' } }, '/settings LOG_LEVELS'],
  [{ settings: { BASE_URL: 'https://api.example.com' } }, '/settings BASE_URL'],
  [{ settings: { SHUTDOWN_GRACE_MS: null } }, '/settings'],
  [{ ingress: { settings: { KEY_PEPPER: 'secret' } } }, '/ingress/settings KEY_PEPPER'],
  [{ ingress: { settings: { POOLS: 'a' } } }, '/ingress/settings POOLS'],
  [{ ingress: { settings: { SHUTDOWN_DELAY_MS: 'soon' } } }, '/ingress/settings/SHUTDOWN_DELAY_MS'],
  [{ ingress: { settings: { AUTH_URL: 'login.example.com' } } }, '/ingress/settings/AUTH_URL'],
  [{ ingress: { autoscaling: { minReplicas: 0 } } }, '/ingress/autoscaling/minReplicas'],
  [{ workers: { pools: { default: null } } }, '/workers/pools'],
  [{ workers: { pools: { Large: {} } } }, '/workers/pools Large'],
  [{ workers: { pools: { large: { pools: {} } } } }, '/workers/pools/large pools'],
  [
    { workers: { pools: { large: { settings: { BASE_URL: 'https://a' } } } } },
    '/workers/pools/large/settings BASE_URL',
  ],
  [
    { secrets: { keys: { data: { KEY_PEPPER: 'short', GUEST_KEY_SECRET: 'g'.repeat(32) } } } },
    '/secrets/keys/data/KEY_PEPPER',
  ],
  [{ secrets: { stores: { data: { REDIS_URL: 'redis://redis' } } } }, '/secrets/stores/data'],
  [{ httpRoute: { timeout: '11 minutes' } }, '/httpRoute/timeout'],
  [{ httpRoute: { parentRefs: [] } }, '/httpRoute/parentRefs'],
  // Each of these would allow everything, or select every pod of the namespace.
  [{ networkPolicies: { to: { redis: [{ to: [], ports: [{ port: 6379 }] }] } } }, '/networkPolicies/to/redis/0/to'],
  [{ networkPolicies: { to: { redis: [{ to: [{}], ports: [{ port: 6379 }] }] } } }, '/networkPolicies/to/redis/0/to/0'],
  [{ networkPolicies: { to: { redis: [{ ports: [{ port: 6379 }] }] } } }, '/networkPolicies/to/redis/0'],
  [{ networkPolicies: { to: { redis: [{ to: [{ podSelector: {} }] }] } } }, '/networkPolicies/to/redis/0'],
  [{ networkPolicies: { to: { dns: null } } }, '/networkPolicies/to'],
  [
    { networkPolicies: { stores: [{ name: 'a', podSelector: {}, ports: [{ port: 1 }] }] } },
    '/networkPolicies/stores/0/podSelector',
  ],
];

for (const [more, place] of wrong) {
  test(`a wrong value is refused with its place: ${JSON.stringify(more)}`, (t) => {
    t.true(faultsOf(more).includes(place), JSON.stringify(faultsOf(more)));
  });
}
