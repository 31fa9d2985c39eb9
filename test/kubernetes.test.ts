import { existsSync, readdirSync } from 'node:fs';
import test from 'ava';
import { parse, parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { type PlanFile, parsePlanFile } from '../shared/plan-file/plan-file.ts';
import { ingressSettings, settingDefaults, settingNames, workerSettings } from '../shared/process/settings.ts';
import {
  blocks,
  containerOf,
  type Deployment,
  deployments,
  environmentOf,
  findObject,
  labelsOf,
  manifestPage,
  named,
  objects,
  ofKind,
  planFileOf,
  podOf,
  readFile,
  selects,
  texts,
} from './support/documentation/manifests.ts';
import {
  mayBeReached,
  mayConnect,
  type Party,
  policies,
  policiesOf,
} from './support/documentation/network-policies.ts';

function planOf(deployment: Deployment): PlanFile {
  const parsed = parsePlanFile(planFileOf(deployment));
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  return parsed.planFile;
}

test('manifests of the page and of the chart are valid YAML, and each object has its own name in the namespace of the service', (t) => {
  t.true(blocks.length >= 5);
  for (const text of blocks) for (const { errors } of parseAllDocuments(text)) t.deepEqual(errors, [], text);
  const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  t.is(new Set(names).size, names.length);
  for (const { kind, metadata } of objects) {
    t.is(metadata.namespace, kind === 'Namespace' ? undefined : 'inference', `${kind} ${metadata.name}`);
  }
  findObject('Namespace', 'inference');
});

test('every setting exists, and the processes accept all of them', (t) => {
  t.deepEqual(deployments.map((deployment) => containerOf(deployment).name).toSorted(), ['ingress', 'worker']);
  for (const deployment of deployments) {
    const container = containerOf(deployment);
    const environment = environmentOf(container);
    const settings = container.name === 'ingress' ? ingressSettings : workerSettings;
    const ofBackends = Object.values(planOf(deployment).backends).flatMap(({ apiKeyEnv }) => apiKeyEnv ?? []);
    const known = [...settingNames[container.name], ...(container.name === 'worker' ? ofBackends : [])];
    t.deepEqual(
      Object.keys(environment).filter((name) => !known.includes(name)),
      [],
      container.name,
    );
    t.deepEqual(settings.safeParse(environment).error?.issues ?? [], [], container.name);
    if (container.name === 'worker')
      t.deepEqual(
        ofBackends.filter((name) => environment[name] === undefined),
        [],
      );
  }
});

test('the plan file is where the settings say, and each pool has workers and a name of its own', (t) => {
  const pools = deployments.flatMap((deployment) => {
    const container = containerOf(deployment);
    const { PLAN_FILE: file = '', POOLS } = environmentOf(container);
    const mount = container.volumeMounts.find(({ mountPath }) => file === `${mountPath}/plans.yaml`);
    const volume = podOf(deployment).volumes.find(({ name }) => name === mount?.name);
    t.truthy(findObject('ConfigMap', volume?.configMap?.name ?? '').data?.['plans.yaml'], container.name);
    if (container.name !== 'worker') return [];
    t.is(labelsOf(deployment).pool, POOLS);
    t.is(deployment.metadata.name, `inference-worker-${POOLS}`);
    return (POOLS ?? '').split(',');
  });
  const [first] = deployments;
  if (first === undefined) return t.fail();
  const served = Object.values(planOf(first).models).map(({ pool }) => pool);
  t.deepEqual([...new Set(served)].toSorted(), pools.toSorted());
  t.is(new Set(deployments.map(planFileOf)).size, 1, 'all processes have the same plans');
});

test('each container mounts its volumes, writes only to memory, runs a file that exists, and is one image', (t) => {
  for (const deployment of deployments) {
    const { volumes } = podOf(deployment);
    const { volumeMounts, command, resources } = containerOf(deployment);
    t.deepEqual(volumeMounts.map(({ name }) => name).toSorted(), volumes.map(({ name }) => name).toSorted());
    for (const { name, configMap, emptyDir } of volumes) t.true((configMap ?? emptyDir) !== undefined, name);
    t.true(existsSync(new URL(`../${command[1]}`, import.meta.url)), command[1]);
    t.is(resources.requests.memory, resources.limits.memory);
  }
  const images = new Set(deployments.map((deployment) => containerOf(deployment).image));
  t.is(images.size, 1);
  for (const image of images) t.true(manifestPage.includes(`--tag ${image} `));
});

test('Redis has the version of docker-compose.yml', (t) => {
  const compose = parse(readFile('docker-compose.yml'), { merge: true });
  const [, version = 'none'] = /^redis:([\d.]+)/.exec(compose.services.redis.image) ?? [];
  const images = manifestPage.match(/(?<=image: quay\.io\/opstree\/redis:v)[\d.]+/g);
  t.deepEqual(images, [version]);
});

test('the image is built as by docker-compose.yml', (t) => {
  const [, shown] = /^```dockerfile manifest\n(.*?)^```$/ms.exec(manifestPage) ?? [];
  const compose = parse(readFile('docker-compose.yml'), { merge: true });
  t.is(shown, compose.services.ingress.build.dockerfile_inline);
  t.is(shown, compose.services.worker.build.dockerfile_inline);
});

test('every command names objects, containers and files that exist', (t) => {
  const pages = manifestPage + readFile('ingress/documentation/upgrading.md');
  const commands = [...pages.matchAll(/^```sh manifest\n(.*?)^```$/gms)].map(([, text = '']) => text);
  t.true(commands.length >= 5);
  for (const text of commands) {
    for (const line of text.trim().split('\n')) t.regex(line, /^(docker|kubectl|helm) /);
    for (const [, name = ''] of text.matchAll(/deploy(?:ment)?\/(inference\S+)/g))
      t.true(
        ofKind('Deployment').some(({ metadata }) => metadata.name === name),
        name,
      );
    for (const [, name = ''] of text.matchAll(/--namespace (\S+)/g)) findObject('Namespace', name);
    for (const [file = ''] of text.matchAll(/\w+(\/\w+)+\.ts|ingress\/deployment\/chart/g))
      t.true(existsSync(new URL(`../${file}`, import.meta.url)), file);
  }
});

test('ports and paths are those of the processes', (t) => {
  for (const deployment of deployments) {
    const { name, ports, livenessProbe, readinessProbe } = containerOf(deployment);
    const defaults = settingDefaults[name];
    const expected = [
      ...(name === 'ingress' ? [{ name: 'http', containerPort: Number(defaults.get('PORT')) }] : []),
      { name: 'ops', containerPort: Number(defaults.get('OPS_PORT')) },
    ];
    t.deepEqual(ports, expected);
    t.deepEqual(livenessProbe.httpGet, { path: '/healthz', port: 'ops' });
    t.deepEqual(readinessProbe.httpGet, { path: '/readyz', port: 'ops' });
  }
  const operations = readFile('shared/process/operations.ts');
  for (const path of ['/healthz', '/readyz', '/metrics']) t.true(operations.includes(`'${path}'`), path);
});

test('a pod has no preStop, and time for the delay, its streams, and ten seconds more, before it is killed', (t) => {
  for (const deployment of deployments) {
    const container = containerOf(deployment);
    const environment = environmentOf(container);
    const graceMs = Number(environment.SHUTDOWN_GRACE_MS);
    t.is(container.lifecycle, undefined, 'the process itself serves for a while after SIGTERM');
    const delayMs = container.name === 'ingress' ? Number(environment.SHUTDOWN_DELAY_MS) : 0;
    t.is(1_000 * podOf(deployment).terminationGracePeriodSeconds, delayMs + graceMs + 10_000, container.name);
    t.is(graceMs, planOf(deployment).timeouts.requestMs);
    if (container.name === 'ingress') t.is(delayMs, Number(settingDefaults.ingress.get('SHUTDOWN_DELAY_MS')));
  }
});

test('the route waits longer than a request may take, and as long as files and reports take, leads to the service, and to the host of BASE_URL', (t) => {
  const [ingress] = deployments.filter((deployment) => containerOf(deployment).name === 'ingress');
  if (ingress === undefined) return t.fail();
  const { parentRefs, hostnames, rules } = z
    .object({
      parentRefs: z.tuple([named]),
      hostnames: z.array(z.string()),
      rules: z.array(
        z.object({
          matches: z.array(z.object({ path: z.object({ type: z.literal('PathPrefix'), value: z.string() }) })),
          timeouts: z.object({ request: z.string().regex(/^\d+s$/) }),
          backendRefs: z.tuple([z.object({ name: z.string(), port: z.int() })]),
        }),
      ),
    })
    .parse(findObject('HTTPRoute', 'inference').spec);
  const timeouts = rules.flatMap(({ matches, timeouts }) =>
    matches.map(({ path }) => [path.value, 1_000 * Number.parseInt(timeouts.request, 10)] as const),
  );
  const { '/': timeoutMs = 0, ...others } = Object.fromEntries(timeouts);
  t.true(timeoutMs > planOf(ingress).timeouts.requestMs);
  t.deepEqual(others, { '/v1/files': 0, '/openai/v1/files': 0, '/admin/usage': 0 }, 'no limit');
  for (const { backendRefs } of rules)
    t.like(findObject('Service', backendRefs[0].name).spec, { ports: [{ port: backendRefs[0].port }] });
  t.deepEqual(hostnames, [new URL(environmentOf(containerOf(ingress)).BASE_URL ?? '').hostname]);
  const listener = z.looseObject({ protocol: z.literal('HTTPS'), hostname: z.string() });
  const gateway = z
    .looseObject({ listeners: z.tuple([listener]) })
    .parse(findObject('Gateway', parentRefs[0].name).spec);
  t.is(gateway.listeners[0].hostname, hostnames[0] ?? '');
});

const selectorSchema = z.object({ matchLabels: texts });

test('every selector finds pods of its Deployment, and every name of a port exists', (t) => {
  for (const deployment of deployments) {
    const labels = labelsOf(deployment);
    t.deepEqual(deployment.spec.selector.matchLabels, labels);
    for (const { labelSelector } of podOf(deployment).topologySpreadConstraints) {
      t.deepEqual(labelSelector.matchLabels, labels);
    }
    const budget = z
      .looseObject({ selector: selectorSchema })
      .parse(findObject('PodDisruptionBudget', deployment.metadata.name).spec);
    t.deepEqual(budget.selector.matchLabels, labels);
  }
  const all = deployments.map(labelsOf);
  const found = (selector: Record<string, string>) => all.filter((labels) => selects(selector, labels)).length;
  const service = z
    .object({ selector: texts, ports: z.array(z.object({ name: z.string(), port: z.int(), targetPort: z.string() })) })
    .parse(findObject('Service', 'inference').spec);
  t.is(found(service.selector), 1);
  t.deepEqual(
    service.ports.map(({ targetPort }) => targetPort),
    ['http'],
  );
  const monitor = z
    .object({
      selector: selectorSchema,
      podMetricsEndpoints: z.array(z.looseObject({ port: z.string(), path: z.string() })),
    })
    .parse(findObject('PodMonitor', 'inference').spec);
  t.is(found(monitor.selector.matchLabels), deployments.length);
  t.like(monitor.podMetricsEndpoints, { length: 1, 0: { port: 'ops', path: '/metrics' } });
});

/** The labels that the operators give to the pods of these resources: `GetRedisLabels`, and the name of the service of MongoDB. */
const storePods = (() => {
  const [redis, mongodb] = [findObject('RedisCluster', 'redis'), findObject('MongoDBCommunity', 'mongodb')];
  const redisPod = (role: string) => ({
    app: `${redis.metadata.name}-${role}`,
    redis_setup_type: 'cluster',
    role,
    cluster: redis.metadata.name,
  });
  return { redis: [redisPod('leader'), redisPod('follower')], mongodb: [{ app: `${mongodb.metadata.name}-svc` }] };
})();
const portsOfStores = { redis: [6379, 16379], mongodb: [27017] };
const ofService = { namespace: 'inference' };
const [publicAddress, publicAddress6] = ['93.184.216.34', '2606:2800:220:1::1'];

test('each port of each pod has one rule of a network policy', (t) => {
  for (const deployment of deployments) {
    const own = policiesOf(labelsOf(deployment));
    t.is(own.length, 1);
    const allowed = own.flatMap(({ ingress }) => ingress.flatMap(({ ports }) => ports.map(({ port }) => port)));
    t.deepEqual(
      allowed.toSorted(),
      containerOf(deployment)
        .ports.map(({ name }) => name)
        .toSorted(),
    );
  }
});

test('a store can be reached by the service, by its own pods and by its operator; no policy selects a challenge of cert-manager', (t) => {
  const challenge = {
    'acme.cert-manager.io/http01-solver': 'true',
    'acme.cert-manager.io/http-domain': '1037418',
    'acme.cert-manager.io/http-token': '886419',
  };
  t.deepEqual(policiesOf(challenge), []);
  t.deepEqual(policiesOf({}), [], 'other pods of the namespace');
  for (const store of ['redis', 'mongodb'] as const) {
    const pods = storePods[store];
    for (const labels of pods) {
      const [policy, ...others] = policiesOf(labels);
      if (policy === undefined) return t.fail(store);
      t.deepEqual(others, []);
      for (const port of portsOfStores[store]) {
        for (const of of [...deployments.map(labelsOf), ...pods])
          t.true(mayBeReached(policy, { ...ofService, labels: of }, { port }), store);
        t.true(mayBeReached(policy, { namespace: `${store}-operator` }, { port }), store);
        t.false(mayBeReached(policy, { ...ofService, labels: challenge }, { port }), store);
        t.false(mayBeReached(policy, { namespace: 'default', labels }, { port }), store);
      }
      t.false(mayBeReached(policy, { ...ofService, labels }, { port: 22 }), store);
    }
  }
  t.is(policies.length, 2 + Object.keys(storePods).length);
});

/** Where a process must connect to by its settings and plan file, and on which port. */
function destinationsOf(deployment: Deployment): { to: Party; port: number; protocol?: 'UDP' }[] {
  const container = containerOf(deployment);
  const { REDIS_URL = '', DATABASE_URL = '', AUTH_URL = '' } = environmentOf(container);
  const portIn = (url: string) => Number(/:(\d+)\//.exec(url)?.[1]);
  const pods = (all: readonly Record<string, string>[], port: number) =>
    all.map((labels) => ({ to: { ...ofService, labels }, port }));
  const dns = { namespace: 'kube-system', labels: { 'k8s-app': 'kube-dns' } };
  const addresses = [publicAddress, publicAddress6].map((address) => ({ address }));
  const toUrl = (text: string) => {
    const { hostname, port } = new URL(text);
    const [, namespace] = /^[^.]+\.([^.]+)\.svc$/.exec(hostname) ?? [];
    const to = namespace === undefined ? addresses : [{ namespace }];
    return to.map((one) => ({ to: one, port: Number(port || 443) }));
  };
  const backends = Object.values(planOf(deployment).backends).map(({ url }) => url);
  return [
    { to: dns, port: 53 },
    { to: dns, port: 53, protocol: 'UDP' },
    ...pods(storePods.redis, portIn(REDIS_URL)),
    ...pods(storePods.mongodb, portIn(DATABASE_URL)),
    { to: { namespace: 'monitoring' }, port: 4318 }, // OTEL_EXPORTER_OTLP_ENDPOINT, if it is set
    ...(container.name === 'ingress' ? toUrl(AUTH_URL) : backends.flatMap(toUrl)),
    ...(container.name === 'ingress'
      ? []
      : [443, 1024, 65_535].flatMap((port) => addresses.map((to) => ({ to, port })))),
  ];
}

test('a process can connect to what its settings and its plan file name, and to nothing else', (t) => {
  for (const deployment of deployments) {
    const [policy] = policiesOf(labelsOf(deployment));
    if (policy === undefined) return t.fail();
    t.deepEqual(policy.policyTypes, ['Ingress', 'Egress']);
    for (const { to, port, protocol = 'TCP' } of destinationsOf(deployment))
      t.true(
        mayConnect(policy, to, { port, protocol }),
        `${containerOf(deployment).name} ${JSON.stringify({ to, port })}`,
      );
    const isWorker = containerOf(deployment).name === 'worker';
    t.is(mayConnect(policy, { namespace: 'models' }, { port: 8000 }), isWorker);
    t.is(mayConnect(policy, { address: publicAddress }, { port: 8443 }), isWorker);
    t.false(mayConnect(policy, { address: publicAddress }, { port: 22 }));
    for (const port of [80, 443, 6443, 10_250]) {
      for (const address of [
        '169.254.169.254',
        '10.0.0.1',
        '172.16.0.1',
        '192.168.0.1',
        '100.64.0.1',
        '127.0.0.1',
        'fd00::1',
        'fe80::1',
      ])
        t.false(mayConnect(policy, { address }, { port }), address);
      t.false(mayConnect(policy, { namespace: 'default' }, { port }));
      t.false(mayConnect(policy, ofService, { port }));
    }
  }
});

const scaleTarget = z.looseObject({ scaleTargetRef: named });

test('ingresses scale by their CPU, and each pool of workers by the query of the page about waiting', (t) => {
  const written = ['ingress', 'workers', 'shared']
    .flatMap((folder) =>
      readdirSync(new URL(`../${folder}`, import.meta.url), { recursive: true }).map((name) => `${folder}/${name}`),
    )
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => [...readFile(name).matchAll(/'(svc_[a-z_]+)'/g)].map(([, metric = '']) => metric));
  const [, query = ''] = /^```promql query\n(.*?)^```$/ms.exec(readFile('ingress/documentation/waiting.md')) ?? [];
  const byName = new Map(deployments.map((deployment) => [deployment.metadata.name, containerOf(deployment).name]));
  for (const [kind, name] of [
    ['HorizontalPodAutoscaler', 'ingress'],
    ['ScaledObject', 'worker'],
  ] as const) {
    for (const { spec } of ofKind(kind)) t.is(byName.get(scaleTarget.parse(spec).scaleTargetRef.name), name);
  }
  const scaled = ofKind('ScaledObject').map(({ spec }) =>
    z
      .looseObject({
        minReplicaCount: z.int().min(2),
        triggers: z.tuple([z.looseObject({ metadata: z.looseObject({ query: z.string(), threshold: z.string() }) })]),
      })
      .parse(spec),
  );
  t.is(scaled.length, deployments.length - 1);
  for (const { triggers } of scaled) {
    const used = triggers[0].metadata.query;
    t.is(used.trim(), query.trim());
    const metrics = [...used.matchAll(/svc_\w+/g)].map(([metric]) => metric);
    t.true(metrics.length > 2);
    t.deepEqual(
      metrics.filter((metric) => !written.includes(metric)),
      [],
    );
  }
});

test('Redis evicts nothing, writes its file, and serves the rest of its keys; its memory is twice its limit', (t) => {
  const spec = z
    .looseObject({
      clusterSize: z.int().min(3),
      persistenceEnabled: z.literal(true),
      kubernetesConfig: z.looseObject({
        redisSecret: z.object({ name: z.string(), key: z.string() }),
        resources: z.looseObject({ limits: z.object({ memory: z.string() }) }),
      }),
      redisLeader: z.looseObject({ redisConfig: z.object({ additionalRedisConfig: z.string() }) }),
      redisFollower: z.looseObject({ redisConfig: z.object({ additionalRedisConfig: z.string() }) }),
    })
    .parse(findObject('RedisCluster', 'redis').spec);
  const settings = [spec.redisLeader, spec.redisFollower].map(
    ({ redisConfig }) =>
      findObject('ConfigMap', redisConfig.additionalRedisConfig).data?.['redis-additional.conf'] ?? '',
  );
  for (const text of settings) {
    for (const line of [
      'maxmemory-policy noeviction',
      'appendonly yes',
      'cluster-require-full-coverage no',
      'cluster-node-timeout 5000',
    ]) {
      t.true(text.split('\n').includes(line), line);
    }
    const [, gigabytes = ''] = /^maxmemory (\d+)gb$/m.exec(text) ?? [];
    t.is(spec.kubernetesConfig.resources.limits.memory, `${2 * Number(gigabytes)}Gi`);
  }
  const { name, key } = spec.kubernetesConfig.redisSecret;
  const password = findObject('Secret', name).stringData?.[key] ?? '';
  const url = findObject('Secret', 'inference-stores').stringData?.REDIS_URL ?? '';
  const [, login, hosts = ''] = /^redis\+cluster:\/\/([^@]*)@([^/]*)\/$/.exec(url) ?? [];
  t.is(login, `:${password}`);
  const expected = Array.from(
    { length: spec.clusterSize },
    (_, index) => `redis-leader-${index}.redis-leader-headless:6379`,
  );
  t.deepEqual(hosts.split(','), expected);
});

test('the URL of MongoDB names all members, and a user that exists', (t) => {
  const spec = z
    .looseObject({
      members: z.int().min(3),
      users: z.tuple([
        z.looseObject({
          name: z.string(),
          db: z.string(),
          passwordSecretRef: named,
          roles: z.array(z.object({ name: z.string(), db: z.string() })),
        }),
      ]),
    })
    .parse(findObject('MongoDBCommunity', 'mongodb').spec);
  const [user] = spec.users;
  const password = findObject('Secret', user.passwordSecretRef.name).stringData?.password ?? '';
  const hosts = Array.from({ length: spec.members }, (_, index) => `mongodb-${index}.mongodb-svc:27017`).join(',');
  t.is(
    findObject('Secret', 'inference-stores').stringData?.DATABASE_URL,
    `mongodb://${user.name}:${password}@${hosts}/${user.db}?replicaSet=mongodb&authSource=${user.db}`,
  );
  t.deepEqual(user.roles, [{ name: 'readWrite', db: user.db }]);
});
