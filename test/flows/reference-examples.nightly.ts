import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { writeCurl, writeNode, writePython } from '../../ingress/documentation/reference/example-programs.ts';
import { type Operation, readDocument } from '../../ingress/documentation/reference/read-document.ts';
import { requestExample } from '../../ingress/documentation/reference/request-example.ts';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { freePort } from '../stack/free-port.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { startedModels } from '../stack/started-models.ts';
import { linesOf } from '../support/batch-client.ts';
import {
  endlessModel,
  failingModel,
  makeExampleObjects,
  withObjects,
} from '../support/documentation/example-objects.ts';
import { modelsOfStack } from '../support/documentation/pages-of-stack.ts';
import { findPython, noPython, openExampleFolder, runScript, runShell } from '../support/documentation/run-examples.ts';
import { faultsBy, openApiDocument, pointer } from '../support/documented/schema-faults.ts';
import { skipTest } from '../support/skip-test.ts';

const { groups } = readDocument(openApiDocument);
const operations = groups.flatMap((group) => group.operations);
const parts = new AsyncDisposableStack();
let stack: Stack;
const python = await findPython();
if (python === undefined) skipTest(test, { title: 'every example of the reference in Python', reason: noPython });

test.before(async () => {
  const env = {
    WEBHOOK_SECRET_KEY: 'a key of at least 32 characters for the secrets of webhooks',
    WEBHOOK_HOSTS_PRIVATE: 'localhost:*',
  };
  const own = { tier: 'guest', pool: 'default', backends: ['onprem-a'] };
  const models = { ...startedModels, [endlessModel]: own, [failingModel]: own };
  stack = parts.use(await startStack({ ports: { ingress: await freePort() }, models, env }));
  for (const server of stack.modelServers) {
    server.fail({ hang: true }, endlessModel);
    server.fail({ status: 400 }, failingModel);
  }
});
test.after.always(() => parts.disposeAsync());

/** A program that prints the status of each response, because `fetch` does not fail for errors. */
const reportStatuses = `const { fetch } = globalThis;
globalThis.fetch = async (...request) => {
  const response = await fetch(...request);
  if (!response.ok) { console.error(response.status, await response.clone().text()); process.exit(1); }
  return response;
};`;

const endpointModels: Record<string, string> = Object.fromEntries(endpoints.map(({ path, name }) => [path, name]));

/** The examples of an operation with an account and objects of their own, because many can run only once. */
async function prepare(operation: Operation, language: 'sh' | 'ts' | 'python') {
  const models = modelsOfStack(stack);
  const example = requestExample(operation, {
    baseUrl: stack.baseUrl,
    models,
    modelAt: (path) => models[endpointModels[path] ?? ''],
  });
  const text = { sh: writeCurl, ts: writeNode, python: writePython }[language](example);
  const objects = await makeExampleObjects(stack, `${operation.operationId}-${language}`, text);
  return { text: withObjects(text, objects), env: objects.env };
}

for (const operation of operations) {
  const { method, path } = operation;
  // One at a time: each starts a shell, Node and Python, and limits are counted by the minute.
  test.serial(`the examples of ${method} ${path} run, and curl gets the documented answer`, async (t) => {
    await using folder = await openExampleFolder();
    await writeFile(join(folder.path, 'requests.jsonl'), linesOf(1));
    await runCurl(t, operation, folder.path);
    await runNode(t, operation, folder.path);
    if (python !== undefined) await runPython(t, operation, folder.path, python);
  });
}

async function runCurl(t: ExecutionContext, operation: Operation, folder: string) {
  const { text, env } = await prepare(operation, 'sh');
  const [ran] = await runShell([{ text, under: '', role: 'run', language: 'sh' }], { folder, env });
  t.is(ran?.failed, undefined, text);
  const { method, path } = operation;
  const type = 'application/json';
  if (operation.responses[200]?.content[type] === undefined) return void t.true((ran?.output ?? '').length > 0, text);
  const schema = pointer('paths', path, method.toLowerCase(), 'responses', '200', 'content', type, 'schema');
  t.deepEqual(faultsBy(schema, JSON.parse(ran?.output ?? '')), [], `${text}\n${ran?.output}`);
}

async function runNode(t: ExecutionContext, operation: Operation, folder: string) {
  const { text, env } = await prepare(operation, 'ts');
  const report = join(folder, 'report-statuses.mjs');
  await writeFile(report, reportStatuses);
  const place = { folder, env: { ...env, NODE_OPTIONS: `--import=${report}` } };
  const { failed, output } = await runScript({ text, under: '', role: 'run', language: 'ts' }, place, process.execPath);
  t.is(failed, undefined, text);
  t.true(output.trim().length > 0, text);
}

async function runPython(t: ExecutionContext, operation: Operation, folder: string, command: string) {
  const { text, env } = await prepare(operation, 'python');
  const example = { text, under: '', role: 'run', language: 'python' } as const;
  const { failed, output } = await runScript(example, { folder, env }, command);
  t.is(failed, undefined, text);
  t.true(output.trim().length > 0, text);
}
