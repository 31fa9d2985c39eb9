import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { freePort } from '../stack/free-port.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { startedModels } from '../stack/started-models.ts';
import { asRead } from '../support/documentation/pages-of-stack.ts';
import { openAccount } from '../support/endpoints/open-account.ts';
import { skipTest } from '../support/skip-test.ts';
import { buildGo, missingFor, openHome, providePackages, type Registry } from './provide-client.ts';
import { type Block, blocksOf, packagesOf, page } from './shown-clients.ts';

let stack: Stack;

test.before(async () => {
  stack = await startStack({ ports: { ingress: await freePort() }, models: startedModels });
});
test.after.always(() => stack?.[Symbol.asyncDispose]());

/** Clients that call a tool at most once, or none. */
const withoutLoop = new Set(['instructor', 'cohere-ai', 'cohere', 'aider-chat']);
const registryOf: Readonly<Record<string, Registry>> = { python: 'pypi', go: 'go', java: 'maven' };

type Home = Awaited<ReturnType<typeof openHome>>;
type Place = { home: Home; folder: string; env: Record<string, string> };

/** How a block runs, by its language: as a reader runs it who has installed the packages of the folder. */
const runners: Readonly<Record<string, (block: Block, place: Place) => Promise<string>>> = {
  async sh({ text }, { home, folder, env }) {
    const programs = [join(folder, 'node_modules', '.bin'), join(folder, 'bin'), dirname(process.execPath)];
    const PATH = [...programs, process.env.PATH].join(':');
    return await home.run({ program: 'bash', args: ['-e', '-c', text], env: { ...env, PATH } });
  },
  async ts({ text }, { home, folder, env }) {
    await symlink(join(folder, 'node_modules'), join(home.cwd, 'node_modules'));
    await writeFile(join(home.cwd, 'main.ts'), text);
    return await home.run({ program: process.execPath, args: ['main.ts'], env });
  },
  async python({ text }, { home, folder, env }) {
    return await home.run({ program: join(folder, 'bin', 'python'), args: ['-c', text], env });
  },
  async go({ text }, { home, folder, env }) {
    await writeFile(join(home.cwd, 'main.go'), text);
    await buildGo(home.cwd, folder);
    return await home.run({ program: join(home.cwd, 'client'), args: [], env });
  },
  async java({ text }, { home, folder, env }) {
    await writeFile(join(home.cwd, 'Main.java'), text);
    return await home.run({ program: 'java', args: ['-cp', join(folder, '*'), 'Main.java'], env });
  },
};

async function runBlock(block: Block, place: Place): Promise<string> {
  if (block.file === '') return (await runners[block.language]?.(block, place)) ?? '';
  const path = join(place.home.cwd, block.file.replace(/^~/, '..'));
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, block.text);
  return '';
}

/** The most results of tools in one of these calls. */
function resultsIn(calls: readonly { body: unknown }[]): number {
  const result = /"role":"tool"|"type":"(?:tool_result|(?:function|custom_tool)_call_output)"/g;
  return Math.max(0, ...calls.map(({ body }) => JSON.stringify(body).match(result)?.length ?? 0));
}

const callsNow = () => stack.modelServers.flatMap((server) => server.calls());

const lastLanguage = (blocks: readonly Block[]) => blocks.at(-1)?.language ?? '';
const registryFor = (client: string, language: string): Registry =>
  client === 'aider-chat' ? 'pypi' : (registryOf[language] ?? 'npm');

async function assertRuns(t: ExecutionContext, client: string): Promise<void> {
  t.timeout(900_000); // it may install hundreds of megabytes
  const blocks = blocksOf(asRead(page, stack)).get(client) ?? [];
  const language = lastLanguage(blocks);
  // What the blocks import beside the packages of the table.
  const more = language === 'ts' ? { zod: '4.6.7' } : {};
  const folder = await providePackages(registryFor(client, language), { ...more, ...packagesOf(client) });
  const { key } = await openAccount(stack, client.replaceAll(/[^a-z]/g, '-'));
  await using home = await openHome();
  const before = new Set(callsNow().map(({ requestId }) => requestId));
  let said = '';
  for (const block of blocks) said += await runBlock(block, { home, folder, env: { KEY: key } });
  const calls = callsNow().filter(({ requestId }) => !before.has(requestId));
  t.true(calls.length > 0, said);
  t.not(said.trim(), '');
  if (!withoutLoop.has(client)) t.true(resultsIn(calls) >= 2, `${client} ran no two tools, and said: ${said}`);
}

for (const [client, blocks] of blocksOf(page)) {
  const title = `the settings for ${client} work as shown, with two calls of a tool if it has tools`;
  const reason = missingFor(registryFor(client, lastLanguage(blocks)));
  if (reason === undefined) test.serial(title, (t) => assertRuns(t, client));
  else skipTest(test, { title, reason });
}
