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

function planOf(deployment: Deployment): PlanFile {
  const parsed = parsePlanFile(planFileOf(deployment));
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  return parsed.planFile;
}

test('every block of the page is valid YAML, and each object has its own name in the namespace of the service', (t) => {
  t.true(blocks.length >= 7);
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
  const commands = [...manifestPage.matchAll(/^```sh manifest\n(.*?)^```$/gms)].map(([, text = '']) => text);
  t.true(commands.length >= 2);
  for (const text of commands) {
    t.regex(text, /^(docker|kubectl) /);
    for (const [, name = ''] of text.matchAll(/deploy\/(\S+)/g))
      t.true(
        ofKind('Deployment').some(({ metadata }) => metadata.name === name),
        name,
      );
    for (const [, name = ''] of text.matchAll(/--namespace (\S+)/g)) findObject('Namespace', name);
    for (const [file = ''] of text.matchAll(/\w+(\/\w+)+\.ts/g))
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

test('a pod has time for its streams, and ten seconds more, before it is killed', (t) => {
  for (const deployment of deployments) {
    const container = containerOf(deployment);
    const graceMs = Number(environmentOf(container).SHUTDOWN_GRACE_MS);
    const preStopMs = 1_000 * Number(container.lifecycle?.preStop.exec.command[1] ?? 0);
    t.true(1_000 * podOf(deployment).terminationGracePeriodSeconds >= preStopMs + graceMs + 10_000, container.name);
    t.is(preStopMs > 0, container.name === 'ingress', 'only an ingress is behind a load balancer');
    t.is(graceMs, planOf(deployment).timeouts.requestMs);
  }
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

const policySchema = z.looseObject({
  podSelector: z.looseObject({ matchLabels: texts.optional() }),
  ingress: z.array(z.looseObject({ ports: z.array(z.object({ port: z.string() })).optional() })),
});

test('each port of each pod has one rule of a network policy, and other pods only those of the namespace and operators', (t) => {
  const policies = ofKind('NetworkPolicy').map(({ spec }) => policySchema.parse(spec));
  for (const deployment of deployments) {
    const own = policies.filter(
      ({ podSelector: { matchLabels } }) => matchLabels !== undefined && selects(matchLabels, labelsOf(deployment)),
    );
    t.is(own.length, 1);
    const allowed = own.flatMap(({ ingress }) => ingress.flatMap(({ ports = [] }) => ports.map(({ port }) => port)));
    t.deepEqual(
      allowed.toSorted(),
      containerOf(deployment)
        .ports.map(({ name }) => name)
        .toSorted(),
    );
  }
  t.is(policies.filter(({ podSelector }) => podSelector.matchLabels === undefined).length, 1);
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
