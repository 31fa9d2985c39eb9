import test, { type ExecutionContext } from 'ava';
import { readPages } from '../../ingress/documentation/page-list.ts';
import { freePort } from '../stack/free-port.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { startedAliases, startedModels, startedPrices } from '../stack/started-models.ts';
import { misfits, textFits } from '../support/documentation/fits-example.ts';
import { type Example, examplesOf } from '../support/documentation/page-examples.ts';
import { asRead } from '../support/documentation/pages-of-stack.ts';
import {
  findPython,
  noPython,
  openExampleFolder,
  type Ran,
  runScript,
  runShell,
} from '../support/documentation/run-examples.ts';
import { someOf } from '../support/size.ts';
import { skipTest } from '../support/skip-test.ts';

/** Used only by the examples of one page. */
const batchesModel = 'batches-chat';

const parts = new AsyncDisposableStack();
let stack: Stack;
const python = await findPython();

test.before(async () => {
  const models = { ...startedModels, [batchesModel]: { tier: 'guest', pool: 'default', backends: ['onprem-a'] } };
  const ports = { ingress: await freePort() };
  stack = parts.use(
    await startStack({ ports, models, aliases: startedAliases, prices: startedPrices, webhooks: true }),
  );
});
test.after.always(() => parts.disposeAsync());

/** Credentials that the page assumes: a key and a token of one account, except on the page that creates the first key. */
async function environmentFor(page: string): Promise<Record<string, string>> {
  const newcomer = page === 'quick-start' ? 'newcomer' : page;
  return {
    TOKEN: await stack.identity.token(newcomer),
    KEY: await stack.mintKey(page),
    OPERATOR: await stack.identity.token('olga', { admin: true }),
    OPS: stack.ingresses[0]?.operationsUrl ?? '',
  };
}

/** The page runs one batch to its end and cancels the next, which must not finish before that, however fast the service is. */
async function answerOneCall(): Promise<void> {
  const [server] = stack.modelServers;
  await server.waitForCall(({ model, state }) => model === batchesModel && state === 'completed', 60_000);
  server.fail({ hang: true }, batchesModel);
}

if (python === undefined) skipTest(test, { title: 'every example in Python', reason: noPython });

const pages = readPages().filter(({ markdown }) => examplesOf(markdown).some(({ role }) => role === 'run'));
const quickStart = pages.filter(({ name }) => name === 'quick-start');

for (const { name, markdown } of someOf(quickStart, pages)) {
  // One page at a time: each starts a shell, Node and Python, and limits are counted by the minute.
  test.serial(`every example of "${name}" runs unchanged and has the documented result`, async (t) => {
    const isBatches = name === 'batches';
    const examples = examplesOf(asRead(markdown, stack, isBatches ? batchesModel : undefined));
    await using folder = await openExampleFolder();
    const place = { folder: folder.path, env: await environmentFor(name) };
    const of = (language: string) =>
      examples.flatMap((example) => (example.role === 'run' && example.language === language ? [example] : []));
    const [ran] = await Promise.all([runShell(of('sh'), place), ...(isBatches ? [answerOneCall()] : [])]);
    for (const example of of('ts')) ran.push(await runScript(example, place, process.execPath));
    if (python !== undefined) for (const example of of('python')) ran.push(await runScript(example, place, python));
    for (const one of ran) assertComesTo(t, one, examples);
  });
}

function assertComesTo(t: ExecutionContext, { example, output, failed }: Ran, examples: readonly Example[]): void {
  const about = `under "${example.under}": ${example.text.slice(0, 80)}`;
  t.is(failed, undefined, about);
  const next = examples[examples.indexOf(example) + 1];
  if (next?.role !== 'output') return;
  if (next.language === 'text') t.true(textFits(next.text, output), `${about}\n${output}`);
  else t.deepEqual(misfits(JSON.parse(next.text), JSON.parse(output)), [], about);
}
