import test from 'ava';
import { Agent } from 'undici';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import { createBackendChecks } from '../../../workers/exchange/backend-checks.ts';
import { startModelServer } from '../../stack/model-server.ts';
import { planFileFor } from '../../stack/plan.ts';

test('a worker checks only the backends of the models of its pools', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const agent = new Agent();
  t.teardown(() => agent.destroy());
  const location = 'on-prem' as const;
  const away = { url: 'http://127.0.0.1:1/v1', location };
  const parsed = parsePlanFile(
    planFileFor({
      backends: { 'onprem-a': { url: server.url, location }, 'onprem-b': away, other: away },
      models: {
        'small-chat': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
        'medium-chat': { tier: 'standard', pool: 'default', backends: ['onprem-a', 'onprem-b'] },
        'large-chat': { tier: 'premium', pool: 'large', backends: ['other'] },
      },
    }),
  );
  if ('issues' in parsed) throw new Error(JSON.stringify(parsed.issues));
  const checksOf = (pools: string[]) => createBackendChecks({ planFile: parsed.planFile, pools, apiKeys: {} }, agent);
  const checks = checksOf(['default']);
  t.deepEqual(Object.keys(checks), ['backend onprem-a', 'backend onprem-b']);
  t.deepEqual(Object.keys(checksOf(['large'])), ['backend other']);
  await t.notThrowsAsync(async () => checks['backend onprem-a']?.());
  await t.throwsAsync(async () => checks['backend onprem-b']?.(), { message: /ECONNREFUSED/ });
});
