import test, { type ExecutionContext } from 'ava';
import fc from 'fast-check';
import { type Stack, startStack } from '../stack/stack.ts';
import { answerName, documentedAnswers, shapeFaults } from '../support/documented-answers.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { filesLeft } from '../support/files-left.ts';
import { hostileLines, nested } from '../support/hostile-lines.ts';
import { contentType, file, multipart, purpose } from '../support/multipart.ts';
import { exchange } from '../support/raw-http.ts';
import { head, stillServes } from '../support/refusal.ts';
import { sized } from '../support/size.ts';

let stack: Stack;
let key: string;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack());
  key = await stack.mintKey('alice');
});

test.after.always(() => parts.disposeAsync());

function upload(text: string) {
  const port = Number(new URL(stack.ingresses[0]?.url ?? '').port);
  const body = multipart([purpose, file(text)]);
  const lines = [`Authorization: Bearer ${key}`, contentType(), `Content-Length: ${body.length}`];
  return exchange({ port, send: Buffer.concat([Buffer.from(head('POST /v1/files HTTP/1.1', ...lines)), body]) });
}

const assertNoFaults = (t: ExecutionContext) => stillServes(t, stack.ingresses[0], key);

test.serial(
  'a file of any JSON lines is accepted unchanged, or refused as documented and leaves nothing',
  async (t) => {
    const documented = documentedAnswers('POST /v1/files');
    const files = createFileClient(stack, key);
    let taken = 0;
    await fc.assert(
      fc.asyncProperty(hostileLines, async (text) => {
        const answer = await upload(text);
        const name = answerName(answer);
        const faults = shapeFaults('POST /v1/files', answer);
        if (!documented.includes(name) || faults.length > 0) throw new Error(`${name} ${faults}: ${answer.body}`);
        const { id, bytes } = JSON.parse(answer.body);
        const { records, folder } = filesLeft(stack);
        const expected = name === '200' ? [[`${id} ready`], [id]] : [[], []];
        if (JSON.stringify([records, folder]) !== JSON.stringify(expected))
          throw new Error(`${name} left ${records} ${folder}`);
        if (name !== '200') return;
        if (bytes !== Buffer.byteLength(text))
          throw new Error(`of ${Buffer.byteLength(text)} bytes there are ${bytes}`);
        taken++;
        await files.remove(id);
      }),
      { numRuns: sized(100) },
    );
    t.true(taken > 50, `${taken} were accepted`);
    await assertNoFaults(t);
  },
);

test.serial('a line of a chat at the maximum nesting depth is accepted', async (t) => {
  const files = createFileClient(stack, key);
  for (const depth of [10_000, 2_000_000]) {
    const { id, status } = await files.upload(`{"body":{"messages":[${nested(depth)}]}}\n${line('b')}`);
    t.is(status, 'processed');
    await files.remove(id);
  }
  await assertNoFaults(t);
});
