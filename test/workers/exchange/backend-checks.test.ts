import test from 'ava';
import { Agent } from 'undici';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { createBackendChecks } from '../../../workers/exchange/backend-checks.ts';
import { startModelServer } from '../../stack/model-server.ts';
import { planFileFor } from '../../stack/plan.ts';

test('backends are checked by their names, and one without an answer fails', async (t) => {
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
