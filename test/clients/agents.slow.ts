import test, { type ExecutionContext } from 'ava';
import { parse } from 'yaml';
import { readPages } from '../../ingress/documentation/page-list.ts';
import { generatingNames } from '../../shared/endpoints/endpoints.ts';
import { type Stack, type StackOptions, startStack } from '../stack/stack.ts';
import { examplesOf } from '../support/documentation/page-examples.ts';
import { openAccount } from '../support/endpoints/open-account.ts';
import { skipTest } from '../support/skip-test.ts';
import { claudeCode, codex, openHome, provideAgent } from './provide-client.ts';

const [claudeProgram, codexProgram] = await Promise.all([
  provideAgent(claudeCode).catch((error: Error) => error),
  provideAgent(codex).catch((error: Error) => error),
]);

/** The settings for agents, as the page for operators shows them. */
function shownSettings(): Pick<StackOptions, 'models' | 'aliases'> {
  const page = readPages().find(({ name }) => name === 'configuration');
  const shown = examplesOf(page?.markdown ?? '').find(({ role }) => role === 'agents');
  return parse(shown?.text ?? ''); // the stack checks it, as a part of its plan file
}

let stack: Stack;

test.before(async () => {
  const { models, aliases } = shownSettings();
  const plain = { tier: 'guest', pool: 'default', endpoints: generatingNames };
  stack = await startStack({
    models: { ...models, 'plain-chat': plain, 'grammar-chat': { ...plain, extra_fields: ['guided_grammar'] } },
    aliases: { ...aliases, 'gpt-5.5': 'grammar-chat', 'gpt-6.2-astra': 'plain-chat' },
  });
});
test.after.always(() => stack?.[Symbol.asyncDispose]());

const task = 'Do it in two steps.';

/** The most results of commands that model servers have got in one such call. The commands have a sum in place of the digit. */
function resultsSent(path: string, model: string): string[] {
  const calls = stack.modelServers
    .flatMap((server) => server.calls())
    .filter((call) => call.path === path && call.model === model);
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
  t.deepEqual(resultsSent('/v1/messages', 'small-chat'), ['step 1 of 2', 'step 2 of 2']);
});

const flags = ['--skip-git-repo-check', '-s', 'danger-full-access'];

/** Runs Codex on the task as installed, with no setting but address and key, and these arguments. Resolves with what it printed. */
async function runCodex(account: string, program: string, args: readonly string[]): Promise<string> {
  const { key, url } = await openAccount(stack, account);
  await using home = await openHome();
  await home.run({ program, args: ['login', '--with-api-key'], env: {} }, key);
  const address = `openai_base_url="${url}/openai/v1"`;
  return await home.run({ program, args: ['exec', ...flags, '-c', address, ...args, task], env: {} });
}

const inCodex = 'Codex as installed runs two commands and answers, with no setting but address and key';
agentTest(inCodex, codexProgram, async (t, program) => {
  const said = await runCodex('codex', program, []);
  t.regex(said, /^The tool says: [\s\S]*Output:\n\nstep 2 of 2\n/);
  t.deepEqual(resultsSent('/v1/responses', 'codex-chat'), ['step 1 of 2', 'step 2 of 2']);
});

const otherModels = 'so it does for a model of the service, and for one whose tool to change files has a grammar';
agentTest(`Codex: ${otherModels}`, codexProgram, async (t, program) => {
  for (const [name, model] of [
    ['plain-chat', 'plain-chat'],
    ['gpt-5.5', 'grammar-chat'],
  ] as const) {
    const said = await runCodex(`codex-${model}`, program, ['-m', name]);
    t.regex(said, /^The tool says: [\s\S]*Output:\nstep 2 of 2\n/, name);
    t.deepEqual(resultsSent('/v1/responses', model), ['step 1 of 2', 'step 2 of 2'], name);
  }
});

const unknownTools = 'Codex as installed is answered by a model without groups of tools, which are dropped';
agentTest(unknownTools, codexProgram, async (t, program) => {
  t.regex(await runCodex('codex-dropped', program, ['-m', 'gpt-6.2-astra']), /^You said: Do it in two steps\./);
});
