import test, { type ExecutionContext } from 'ava';
import { parse, stringify } from 'yaml';
import { buildMs, missingFor } from '../clients/provide-client.ts';
import { manifestBlocks } from '../support/documentation/manifests.ts';
import { skipTest } from '../support/skip-test.ts';
import { pageFile, readText, renderedFile, renderedText, valuesOnPage, withObjects } from './chart-page.ts';
import { customFaults, isCustom, type Resource, validateBuiltIn } from './resource-schemas.ts';
import { kubernetesMin, provideHelm, runHelm } from './run-helm.ts';

const page = readText(pageFile);
const { values, plans, further } = valuesOnPage(page);
const kubernetesVersions = [kubernetesMin, '1.37.0'];

/** Everything that the chart can make and the page does not show. */
const allOn = `
image: { tag: 1.2.3, pullPolicy: Always, pullSecrets: [{ name: registry }] }
settings: { LOG_FORMAT: json, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://otel-collector.monitoring.svc:4318', BODY_BYTES_MAX: 134217728 }
secrets:
  stores: { name: stores, data: { REDIS_URL: 'redis://redis:6379', DATABASE_URL: 'mongodb://mongodb/inference' } }
  keys: { data: { KEY_PEPPER: ${'p'.repeat(64)}, GUEST_KEY_SECRET: ${'g'.repeat(64)} } }
  backends: { data: { CLOUD_API_KEY: 'yes', OTHER_KEY: '1e3', THIRD_KEY: '0o7' } }
ingress: &pods
  annotations: { a: b }
  nodeSelector: { disk: ssd }
  tolerations: [{ key: gpu, operator: Exists }]
  priorityClassName: high
  extraVolumes: [{ name: authorities, configMap: { name: authorities } }]
  extraVolumeMounts: [{ name: authorities, mountPath: /etc/authorities, readOnly: true }]
  settings: { NODE_EXTRA_CA_CERTS: /etc/authorities/ca.pem, AUTH_OPERATORS: 'groups=Größe "A"', QUEUES_WRITABLE: false }
  autoscaling: { enabled: false }
  service: { type: LoadBalancer, annotations: { a: b } }
workers:
  nodeSelector: { disk: ssd }
  autoscaling: { query: "sum(a)\\n  + sum(b)" }
  pools: { other: { nodeSelector: { disk: hdd }, tolerations: [{ operator: Exists }] } }
httpRoute: { parentRefs: [{ name: shared, namespace: gateways, sectionName: https }], hostnames: [a.example.com, b.example.com], annotations: { a: b } }
ingressResource: { enabled: true, hosts: [a.example.com, b.example.com], tlsSecret: '', annotations: { a: b } }
podMonitor: { labels: { release: prometheus } }
`;
const allOff = `
ingress: { autoscaling: { enabled: false }, replicas: 3 }
workers: { autoscaling: { enabled: false } }
httpRoute: { enabled: false }
podMonitor: { enabled: false }
networkPolicies: { enabled: false }
planFile: { configMap: my-plans }
`;
const nothingAllowed = `
networkPolicies:
  from: { clients: [], prometheus: [] }
  to: { dns: [], redis: [], mongodb: [], telemetry: [], identityProvider: [], modelServers: [], webhooks: [] }
  stores: []
`;
const kinds = {
  'the values of the page': '',
  'everything on': allOn,
  'everything off': allOff,
  'nothing allowed': nothingAllowed,
};
const cases = { ...kinds, ...Object.fromEntries(further.map((text, index) => [`further values ${index + 1}`, text])) };

/** The objects of a text, as it is: Kubernetes reads YAML 1.1, in which `yes` is not a text. */
const textsOf = (output: string) => output.split(/^---\n/m).filter((text) => /^kind:/m.test(text));
const parsed = (text: string) => parse(text) as Resource; // as Helm writes it
const template = async (more: readonly string[]) =>
  runHelm(await provideHelm(), 'template', { values: [values, ...more], plans });

async function faultsOf(texts: readonly string[]): Promise<string[]> {
  const builtIn = texts.filter((text) => !isCustom(parsed(text)));
  const wanted = builtIn.map(parsed).map(({ kind, metadata }) => `${kind.toLowerCase()}/${metadata.name}`);
  const faults = await customFaults(texts.map(parsed).filter(isCustom));
  for (const version of builtIn.length > 0 ? kubernetesVersions : []) {
    const { right, said } = await validateBuiltIn(builtIn, version);
    if (JSON.stringify(right) !== JSON.stringify(wanted)) faults.push(`${version}: ${said}`);
  }
  return faults;
}

const reason = missingFor('go') ?? missingFor('pypi');
const declare = (title: string, implementation: (t: ExecutionContext) => Promise<void>) => {
  if (reason !== undefined) return skipTest(test, { title, reason });
  test(title, async (t) => {
    t.timeout(buildMs); // the first one waits for Helm
    await implementation(t);
  });
};

declare('the page and its file have what Helm makes of the chart', async (t) => {
  const output = await template([]);
  t.is(readText(renderedFile), renderedText(output, page), 'run: npm run chart -- --write');
  t.is(page, withObjects(page, output), 'run: npm run chart -- --write');
});

for (const [name, more] of Object.entries(cases)) {
  declare(`Helm finds no fault in the chart, and each object fits the schema of its kind: ${name}`, async (t) => {
    const helm = await provideHelm();
    const linted = await runHelm(helm, 'lint', { values: [values, more], plans });
    t.regex(linted, /1 chart\(s\) linted, 0 chart\(s\) failed/);
    const output = await template([more]);
    const texts = textsOf(output);
    t.true(texts.length > 5);
    t.deepEqual(await faultsOf(texts), []);
    const names = texts.map(parsed).map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    t.is(new Set(names).size, names.length);
    t.notRegex(output, /\d[eE]\+\d|<no value>|map\[/, 'a value that Go prints in its own way');
  });
}

declare('each manifest of the page fits the schema of its kind', async (t) => {
  const texts = manifestBlocks.flatMap(textsOf);
  t.true(texts.map(parsed).filter(isCustom).length >= 3);
  t.deepEqual(await faultsOf(texts), []);
});

declare('a fault in an object is found', async (t) => {
  const resources = textsOf(await template([])).map(parsed);
  const wrong = (kind: string, change: (spec: Record<string, unknown>) => void) => {
    const found = structuredClone(resources.find((resource) => resource.kind === kind)) as Resource & {
      spec: Record<string, unknown>;
    };
    change(found.spec);
    return faultsOf([stringify(found)]);
  };
  for (const kind of ['Deployment', 'HTTPRoute', 'ScaledObject', 'PodMonitor', 'NetworkPolicy']) {
    t.true((await wrong(kind, (spec) => Object.assign(spec, { unknown: 1 }))).length > 0, kind);
  }
  t.true(
    (await wrong('HTTPRoute', (spec) => Object.assign(spec, { rules: [{ timeouts: { request: '11 min' } }] }))).length >
      0,
  );
});

declare(
  'Helm refuses the chart without required values, with wrong ones, and with a pool that has no workers',
  async (t) => {
    const helm = await provideHelm();
    const bare = await t.throwsAsync(runHelm(helm, 'template', { values: [], plans: '' }));
    for (const place of ['/image/repository', '/ingress/settings/BASE_URL', '/ingress/settings/AUTH_URL', '/planFile'])
      t.true(bare?.message.includes(place), place);
    const wrong = await t.throwsAsync(template(['ingress: { settings: { TRUST_PROXYS: 1 } }']));
    t.regex(wrong?.message ?? '', /at '\/ingress\/settings': additional properties 'TRUST_PROXYS' not allowed/);
    const pool = await t.throwsAsync(template(['workers: { pools: { default: null, large: {} } }']));
    t.regex(pool?.message ?? '', /the model small-chat of planFile\.text is in the pool default, which has no workers/);
    const plan = await t.throwsAsync(runHelm(helm, 'template', { values: [values], plans: 'a: [' }));
    t.regex(plan?.message ?? '', /planFile\.text is not valid YAML/);
  },
);

declare(
  'a change of the plan file changes only its ConfigMap; a change of a setting replaces the pods of its process',
  async (t) => {
    const before = textsOf(await template([]));
    const changed = (after: string[]) =>
      after
        .filter((text, index) => text !== before[index])
        .map(parsed)
        .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
        .toSorted();
    const helm = await provideHelm();
    const planned = await runHelm(helm, 'template', { values: [values], plans: `${plans}currency: EUR\n` });
    t.deepEqual(changed(textsOf(planned)), ['ConfigMap inference-plans']);
    t.deepEqual(changed(textsOf(await template(['ingress: { settings: { QUEUE_DEPTH_MAX: 5 } }']))), [
      'ConfigMap inference-ingress',
      'Deployment inference-ingress',
    ]);
  },
);

declare(
  'values of a pool, of its process and of all processes replace each other, also with 0, false and an empty text',
  async (t) => {
    const more = `
settings: { SHUTDOWN_GRACE_MS: 5000, LOG_LEVEL: warn, ANSWER_BUDGET_BYTES: 1000000 }
ingress: { settings: { SHUTDOWN_DELAY_MS: 0, CONSOLE_RESOURCE: '' } }
workers:
  settings: { SHUTDOWN_GRACE_MS: 0, BATCH_CONCURRENCY: 8 }
  pools: { large: { settings: { BATCH_CONCURRENCY: 0, LOG_LEVEL: debug }, autoscaling: { enabled: false }, replicas: 7 } }
`;
    const resources = textsOf(await template([more])).map(parsed) as (Resource & {
      data: Record<string, string>;
      spec: unknown;
    })[];
    const find = (kind: string, name: string) =>
      resources.find((one) => one.kind === kind && one.metadata.name === `inference-${name}`);
    t.like(find('ConfigMap', 'ingress')?.data, {
      ...{ SHUTDOWN_GRACE_MS: '5000', SHUTDOWN_DELAY_MS: '0', CONSOLE_RESOURCE: '' },
      ...{ LOG_LEVEL: 'warn', ANSWER_BUDGET_BYTES: '1000000' },
    });
    t.like(find('ConfigMap', 'worker-default')?.data, {
      SHUTDOWN_GRACE_MS: '0',
      BATCH_CONCURRENCY: '8',
      LOG_LEVEL: 'warn',
    });
    t.like(find('ConfigMap', 'worker-large')?.data, { POOLS: 'large', BATCH_CONCURRENCY: '0', LOG_LEVEL: 'debug' });
    t.like(find('Deployment', 'ingress')?.spec, { template: { spec: { terminationGracePeriodSeconds: 15 } } });
    t.like(find('Deployment', 'worker-default')?.spec, { template: { spec: { terminationGracePeriodSeconds: 10 } } });
    t.like(find('Deployment', 'worker-large')?.spec, { replicas: 7 });
    t.is(find('ScaledObject', 'worker-large'), undefined);
    t.truthy(find('ScaledObject', 'worker-default'));
  },
);
