import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import test from 'ava';
import { Agent } from 'undici';
import { type Backend, parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { createBackendChecks } from '../../../workers/exchange/backend-checks.ts';
import { startModelServer } from '../../stack/model-server.ts';
import { planFileFor } from '../../stack/plan.ts';

test('backends are checked by their names, and one that cannot be reached fails', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const agent = new Agent();
  t.teardown(() => agent.destroy());
  const location = 'on-prem' as const;
  const away = { url: 'http://127.0.0.1:1/v1', location };
  const parsed = parsePlanFile(
    planFileFor({
      backends: { 'onprem-a': { url: server.url, location }, 'onprem-b': away },
    }),
  );
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  const called = new Map(Object.entries(parsed.planFile.backends));
  const checksOf = createBackendChecks({ agent, apiKeyOf: () => undefined, timeoutMs: 30_000 });
  const checks = checksOf(called);
  t.deepEqual(Object.keys(checks), ['backend onprem-a', 'backend onprem-b']);
  await t.notThrowsAsync(async () => checks['backend onprem-a']?.());
  await t.throwsAsync(async () => checks['backend onprem-b']?.(), { message: /ECONNREFUSED/ });
});

test('a backend that does not answer in time fails', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1');
  t.teardown(() => silent.close());
  await once(silent, 'listening');
  const agent = new Agent();
  t.teardown(() => agent.destroy());
  const { port } = silent.address() as AddressInfo; // a TCP server has one
  const backend: Backend = { url: `http://127.0.0.1:${port}/v1`, location: 'on-prem' };
  const checks = createBackendChecks({ agent, apiKeyOf: () => undefined, timeoutMs: 50 })(new Map([['a', backend]]));
  await t.throwsAsync(async () => checks['backend a']?.(), { name: 'TimeoutError' });
});
