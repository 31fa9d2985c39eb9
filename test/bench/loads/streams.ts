import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { at } from '../offer.ts';
import { type Figures, type Order, type Question, streamTokens, streamTokensPerSecond } from './load.ts';

/** In milliseconds. `late`: from the sending of a token, by the model server's clock, which is the same one, to its arrival. */
type Times = { first: number[]; between: number[]; late: number[]; whole: number[] };

const streamMs = (1_000 * streamTokens) / streamTokensPerSecond;

/**
 * Runs clients that read one complete stream after another until the time is over. Their starts are spread evenly over the length of a
 * stream, so that they do not all start at the same time again and again.
 */
export async function sendStreams({
  question,
  clients,
  seconds,
}: Order): Promise<Omit<Figures, 'generatorCpuSeconds'>> {
  const times: Times = { first: [], between: [], late: [], whole: [] };
  const agent = new Agent({ connections: clients });
  const begunAt = now();
  let failed = 0;
  const running = Array.from({ length: clients }, async (_, client) => {
    await sleep((streamMs * client) / clients);
    const until = now() + 1_000 * seconds;
    do {
      const isWhole = await readStream(question, client, { agent, times }).catch(() => false);
      if (!isWhole) failed += 1;
    } while (now() < until);
  });
  await Promise.all(running);
  const tookSeconds = (now() - begunAt) / 1_000;
  await agent.close();
  for (const values of Object.values(times)) values.sort((one, other) => one - other);
  return {
    answered: times.whole.length,
    failed,
    seconds: tookSeconds,
    p50Ms: at(times.whole, 0.5),
    p99Ms: at(times.whole, 0.99),
    stream: {
      firstTokenP50Ms: at(times.first, 0.5),
      firstTokenP99Ms: at(times.first, 0.99),
      betweenP50Ms: at(times.between, 0.5),
      betweenP99Ms: at(times.between, 0.99),
      lateP50Ms: at(times.late, 0.5),
      lateP99Ms: at(times.late, 0.99),
      chunksPerSecond: times.late.length / tookSeconds,
    },
  };
}

/** Whether the stream was complete with each token. */
async function readStream(
  { urls, headers, bodies }: Question,
  client: number,
  { agent: dispatcher, times }: { agent: Agent; times: Times },
): Promise<boolean> {
  const startedAt = now();
  const url = urls[client % urls.length] ?? '';
  const { statusCode, body } = await request(url, { method: 'POST', headers, body: bodies[0] ?? '', dispatcher });
  if (statusCode !== 200) {
    await body.dump();
    return false;
  }
  let [text, tokens, lastAt, isDone] = ['', 0, startedAt, false];
  for await (const bytes of body) {
    const receivedAt = now();
    text += String(bytes);
    const events = text.split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      if (event === 'data: [DONE]') isDone = true;
      const sentAt = sentAtOf(event);
      if (sentAt === undefined) continue;
      times.late.push(receivedAt - sentAt);
      if (tokens === 0) times.first.push(receivedAt - startedAt);
      else times.between.push(receivedAt - lastAt);
      tokens += 1;
      lastAt = receivedAt;
    }
  }
  if (!isDone || tokens !== streamTokens) return false;
  times.whole.push(now() - startedAt);
  return true;
}

/** The text of each token is its sending time. It is found without parsing the event, which would be most of the cost. */
function sentAtOf(event: string): number | undefined {
  const [, sentAt] = /"content":"\s*(\d+\.\d+)"/.exec(event) ?? [];
  return sentAt === undefined ? undefined : Number(sentAt);
}

/** Milliseconds of the clock that all processes of a machine share. */
function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
