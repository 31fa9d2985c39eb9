import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseEnv } from 'node:util';
import test from 'ava';
import { startIdentityProvider } from '../stack/identity-provider.ts';
import { startModelServer } from '../stack/model-server.ts';
import { type ServiceProcess, startServiceProcess } from '../stack/service-process.ts';
import { startStackRedis } from '../stack/stack-redis.ts';
import { chat } from '../support/chat.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const secret = () => randomBytes(32).toString('base64');

/** The text with each of these replaced, which must be there. */
function replaced(text: string, changes: Readonly<Record<string, string>>): string {
  return Object.entries(changes).reduce((before, [from, to]) => {
    if (!before.includes(from)) throw new Error(`no ${from}`);
    return before.replace(from, to);
  }, text);
}

async function portOf(child: ServiceProcess, beginning: string): Promise<string> {
  const { port } = await child.line(({ msg, port }) => port !== undefined && msg?.startsWith(beginning) === true);
  return `http://127.0.0.1:${port}`;
}

test('a service starts with .env.example and the example of a plan file: only secrets and addresses are filled in', async (t) => {
  await using parts = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'example-settings-'));
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const redis = parts.use(await startStackRedis(join(folder, 'redis')));
  const models = parts.use(await startModelServer({ name: 'onprem' }));
  const identity = parts.use(await startIdentityProvider({ audience: 'http://127.0.0.1:8080' }));
  const planFile = join(folder, 'plans.yaml');
  const example = await readFile(join(root, 'ingress/deployment/plans.example.yaml'), 'utf8');
  await writeFile(planFile, replaced(example, { 'http://127.0.0.1:8000/v1': models.url }));
  const settings = parseEnv(
    replaced(await readFile(join(root, '.env.example'), 'utf8'), {
      'KEY_PEPPER=\n': `KEY_PEPPER=${secret()}\n`,
      'GUEST_KEY_SECRET=\n': `GUEST_KEY_SECRET=${secret()}\n`,
      'redis://127.0.0.1:6379': redis.serviceUrl,
      'sqlite:.data/store.sqlite': `sqlite:${join(folder, 'store.sqlite')}`,
      'PLAN_FILE=plans.yaml': `PLAN_FILE=${planFile}`,
      'https://sign-in.example.com/realms/main': identity.issuer,
      '# HOST=0.0.0.0\n# PORT=8080\n# OPS_PORT=8081': 'HOST=127.0.0.1\nPORT=0\nOPS_PORT=0',
      '# SHUTDOWN_DELAY_MS=10000': 'SHUTDOWN_DELAY_MS=0',
    }),
  ) as Record<string, string>; // without prototype, and with texts only
  const [ingress, worker] = (['ingress', 'workers'] as const).map((side) => {
    const child = startServiceProcess({ side, env: settings });
    parts.defer(() => child.stop());
    return child;
  });
  if (ingress === undefined || worker === undefined) return t.fail();
  const [url, operations] = await Promise.all([
    portOf(ingress, 'ready'),
    portOf(worker, 'operations'),
    worker.line(({ msg }) => msg === 'ready'),
  ]);

  const response = await fetch(`${url}/v1/keys/developer`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await identity.token('alice')}` },
    body: '{}',
  });
  const { key } = (await response.json()) as { key: string }; // the service's own answer
  t.is((await chat({ url, key, question: 'Hello' })).status, 200);

  // The key of the cloud backend is not set.
  const warnings = [ingress, worker].map(({ logs }) =>
    logs.flatMap(({ level, warnings }) => (level === 'warn' ? (warnings ?? []) : [])),
  );
  t.deepEqual(warnings, [
    [],
    [
      'backends.cloud.api_key_env: the variable CLOUD_API_KEY is not set; a worker without it does not call this backend',
    ],
  ]);
  const refused = await chat({ url, key, question: 'Hello', model: 'large-chat' });
  t.is(refused.status, 503);
  t.is(refused.headers.get('retry-after'), '30');
  t.like(await refused.json(), { code: 'UPSTREAMS_EXHAUSTED' });
  const ready = await fetch(`${operations}/readyz`);
  t.is(ready.status, 200);
  t.like(await ready.json(), {
    dependencies: { 'backend onprem': { state: 'ok' }, 'backend cloud': { state: 'degraded' } },
    pauses: [{ backend: 'cloud', kind: 'account' }],
  });
  const metrics = await (await fetch(`${operations}/metrics`)).text();
  t.regex(metrics, /^svc_backend_paused\{backend="cloud",kind="account"\} 1$/m);
});
