import test, { type ExecutionContext } from 'ava';
import { generatingNames } from '../../shared/endpoints/routes.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { openAccount } from '../support/endpoints/open-account.ts';
import { skipTest } from '../support/skip-test.ts';
import { claudeCode, codex, openHome, provideAgent } from './provide-agent.ts';

const [claudeProgram, codexProgram] = await Promise.all([
  provideAgent(claudeCode).catch((error: Error) => error),
  provideAgent(codex).catch((error: Error) => error),
]);

let stack: Stack;

test.before(async () => {
  stack = await startStack({
    models: {
      'agent-model': { tier: 'guest', pool: 'default', endpoints: generatingNames, clamp_output_tokens: true },
    },
    // What the agents ask for if no model is set.
    aliases: { 'claude-opus-5-5': 'agent-model', 'gpt-6.2-sol': 'agent-model' },
  });
});
test.after.always(() => stack?.[Symbol.asyncDispose]());

const task = 'Do it in two steps.';

/** The most results of commands that model servers have got in one call of this path. The commands have a sum in place of the digit. */
function resultsSent(path: string): string[] {
  const calls = stack.modelServers.flatMap((server) => server.calls()).filter((call) => call.path === path);
  const results = calls.map(({ body }) => Array.from(JSON.stringify(body).matchAll(/step \d of 2/g), ([said]) => said));
  return results.toSorted((a, b) => b.length - a.length)[0] ?? [];
}

/** The test of an agent that npm has. */
function agentTest(title: string, agent: string | Error, run: (t: ExecutionContext, program: string) => Promise<void>) {
  if (typeof agent === 'string') test(title, (t) => run(t, agent));
  else skipTest(test, { title, reason: agent.message });
}

const inClaudeCode = 'Claude Code as installed runs two commands and answers, with no setting but address and key';
agentTest(inClaudeCode, claudeProgram, async (t, program) => {
  const { key, url } = await openAccount(stack, 'claude-code');
  await using home = await openHome();
  const env = { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key };
  const said = await home.run({ program, args: ['-p', task, '--allowedTools', 'Bash'], env });
  t.regex(said, /^The tool says: step 2 of 2\./);
  t.deepEqual(resultsSent('/v1/messages'), ['step 1 of 2', 'step 2 of 2']);
});

const flags = ['--skip-git-repo-check', '-s', 'danger-full-access'];

const inCodex = 'Codex runs two commands and answers, with no setting but address, key and a model of the service';
agentTest(inCodex, codexProgram, async (t, program) => {
  const { key, url } = await openAccount(stack, 'codex');
  await using home = await openHome();
  await home.run({ program, args: ['login', '--with-api-key'], env: {} }, key);
  const args = ['exec', ...flags, '-c', `openai_base_url="${url}/v1"`, '-m', 'agent-model', task];
  const said = await home.run({ program, args, env: {} });
  t.regex(said, /^The tool says: [\s\S]*Output:\nstep 2 of 2\n/);
  t.deepEqual(resultsSent('/v1/responses'), ['step 1 of 2', 'step 2 of 2']);
});

const unknownTools =
  'Codex as installed is answered, although its tools are in groups that only the servers of OpenAI know';
agentTest(unknownTools, codexProgram, async (t, program) => {
  const { key, url } = await openAccount(stack, 'codex-plain');
  await using home = await openHome();
  const provider = `{name="service",base_url="${url}/openai/v1",env_key="KEY",wire_api="responses"}`;
  const settings = ['-c', 'model_provider="service"', '-c', `model_providers.service=${provider}`];
  const said = await home.run({ program, args: ['exec', ...flags, ...settings, task], env: { KEY: key } });
  t.regex(said, /^You said: Do it in two steps\./);
});
