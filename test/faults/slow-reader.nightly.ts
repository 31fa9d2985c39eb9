import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Agent } from 'undici';
import { type RunningProcess, startStack } from '../stack/stack.ts';
import { faultTest } from '../support/faults/fault-test.ts';
import { openSlowReader } from '../support/slow-reader.ts';
import { type AskedRequest, ask, questionOf } from '../support/truth/ask.ts';
import { openWitnesses } from '../support/truth/open-witnesses.ts';
import { watchMemory } from '../support/watch-memory.ts';

const readers = 12;
const mebibyte = 1_048_576;
/**
 * A client has at most a mebibyte of waiting text in UTF-8 (ingress/replies/reply-buffer.ts). JavaScript needs twice that for text that is
 * not Latin. There are three copies: in the buffer, being written, and in the connection's own queue.
 */
const bytesPerReader = mebibyte * 2 * 3;
/** The growth of a heap under any load before it is collected. */
const heapBytes = 256 * mebibyte;
const growthMax = readers * bytesPerReader + heapBytes;
const isErrorFrame = /data: \{"error":\{[^\n]*"UPSTREAM_INTERRUPTED"[^\n]*\}\n\n/;

faultTest(
  test,
  {
    id: '21a',
    done: 'clients do not read their endless streams',
    promised:
      'memory is bounded, they are disconnected and charged for the delivered output; other clients are answered',
  },
  async (t, see) => {
    t.timeout(150_000);
    // An endless stream ends at its limit, which is set beyond what any client reads.
    const endless = { tier: 'guest', pool: 'default', output_tokens_max: 1_000_000_000 };
    await using stack = await startStack({ models: { 'small-chat': endless } });
    await using witnesses = await openWitnesses(stack);
    using opened = new DisposableStack();
    const agent = new Agent();
    t.teardown(() => agent.destroy());
    const url = stack.ingresses[0]?.url ?? '';
    const { wish, keys } = witnesses;
    const others: AskedRequest[] = [];

    /** Others send one question after another, until they are stopped. */
    async function askOthers(name: string, isOver: () => boolean): Promise<number[]> {
      const times: number[] = [];
      const other = async (client: number) => {
        for (let turn = 0; turn < 10 || !isOver(); turn += 1) {
          const askedAt = performance.now();
          const question = `${name} ${client} ${turn}?`;
          others.push(await ask({ ...wish(question), model: 'medium-chat', stream: client % 2 === 0 }, agent));
          times.push(performance.now() - askedAt);
          await sleep(50);
        }
      };
      await Promise.all([0, 1, 2, 3].map(other));
      return times;
    }

    const usual = await askOthers('Before', () => true);
    const processes = [...stack.ingresses, ...stack.workers];
    using watching = watchMemory(processes);
    for (const server of stack.modelServers) server.fail({ endless: true, chunkMs: 0 }, 'small-chat');
    const slow = await Promise.all(
      Array.from({ length: readers }, async (_, reader) => {
        const asking = { url, key: keys[0] ?? '', question: `Slow ${reader}?` };
        return opened.use(await openSlowReader(asking, reader % 3 === 1 ? 1_024 : 0));
      }),
    );
    const calls = () =>
      stack.modelServers.flatMap((server) => server.calls()).filter((call) => questionOf(call)?.startsWith('Slow'));
    let cut = false;
    const meanwhile = askOthers('Meanwhile', () => cut);
    while (calls().filter(({ state }) => state === 'aborted').length < readers) await sleep(50);
    cut = true;
    const times = await meanwhile;

    // Some continue to read as soon as they are disconnected, and get an error frame. The others are not waited for.
    const errors = await Promise.all(slow.filter((_, reader) => reader % 3 === 2).map((each) => each.readOn()));
    t.true(errors.every((text) => isErrorFrame.test(text.slice(-1_000))));
    const [ingress] = stack.ingresses;
    while (ingress !== undefined && (await abortedBy(ingress)) < (readers * 2) / 3) await sleep(100);
    const growth = await watching.stop();
    const rest = await Promise.all(slow.filter((_, reader) => reader % 3 !== 2).map((each) => each.readOn()));
    t.false([...errors, ...rest].some((text) => text.includes('[DONE]')));

    const inMebibytes = growth.map((bytes) => Math.round(bytes / mebibyte));
    see(`ingress and worker grew by ${inMebibytes.join(' and ')} MiB, of ${Math.round(growthMax / mebibyte)}`);
    see(
      `others took ${Math.round(median(usual))} ms before, ${Math.round(median(times))} meanwhile, at most ${Math.round(Math.max(...times))}`,
    );
    t.true(growth.every((bytes) => bytes < growthMax));
    t.true(others.every(({ ending }) => ending === 'answered'));

    const { records } = await witnesses.agreeOn(t, others);
    t.is(calls().length, readers);
    for (const { requestId = '', completionTokens } of calls()) {
      const record = records.get(requestId);
      t.like(record, { outcome: 'cancelled', counted: 'estimated' });
      // Tokens of the tokenizer are rarely shorter than those of the model server, which have four characters.
      const charged = record?.completionTokens ?? 0;
      t.true(charged > 0 && charged < 2 * completionTokens, `${charged} charged, ${completionTokens} sent`);
    }
  },
);

async function abortedBy({ operationsUrl }: RunningProcess): Promise<number> {
  const text = await (await fetch(`${operationsUrl}/metrics`)).text();
  return Number(/^svc_http_requests_total\{.*status="aborted".*\} (\d+)$/m.exec(text)?.[1] ?? 0);
}

function median(times: readonly number[]): number {
  return [...times].sort((one, other) => one - other)[Math.floor(times.length / 2)] ?? 0;
}
