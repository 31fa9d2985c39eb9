import type { Truth } from '../comparison/results.ts';
import { names } from '../comparison/rows.ts';
import type { Place } from '../gateways/places.ts';
import { askAfterKilling, askAtEdge, askForTokens, askWithoutRedis, limits, type Subject } from './questions.ts';
import { litellmSubject, serviceSubject } from './subjects.ts';

type Options = Place & { peers: string; withPeers: boolean };

const questions = {
  edge: `admitted of a limit of ${limits.perMinute} requests a minute, fired at a window's edge`,
  tokens: `tokens through a limit of ${limits.tokensPerMinute} a minute, 100 requests at once before that edge and after`,
  away: `admitted while Redis is unavailable, of a limit of ${limits.awayPerMinute}`,
  gateway: `of ${limits.atOnce} at once, refused after a kill -9 of the gateway with ${limits.atOnce} streams open`,
  'all processes': 'the same, all its processes killed',
} as const;

/** `failed`: the rows that could not be started, or broke during the test. Their answers contain the error. */
type Found = { truth: Truth[]; failed: string[] };

/** Tests this service and the peers in the same way with the same client, concurrently, because the load is small. */
export async function findTruth({ withPeers, ...place }: Options): Promise<Found> {
  const found = [findTruthOf(names.one, () => serviceSubject(place))];
  if (withPeers)
    found.push(
      findTruthOf(names.litellm, () => litellmSubject(place)),
      Promise.resolve(ofPortkey()),
    );
  const all = await Promise.all(found);
  return { truth: all.flatMap(({ truth }) => truth), failed: all.flatMap(({ failed }) => failed) };
}

function ofPortkey(): Found {
  const truth = Object.values(questions).map((question) => ({ row: names.portkey, question, answer: 'checks none' }));
  return { truth, failed: [] };
}

/** Each answer of a gateway that cannot be started is the error. */
export async function findTruthOf(name: string, start: () => Promise<Subject & AsyncDisposable>): Promise<Found> {
  try {
    await using subject = await start();
    return { truth: await answersOf(subject), failed: [] };
  } catch (error) {
    const answer = String(error).split('\n')[0]?.slice(0, 200) ?? '';
    console.error(`truth: ${name}: ${answer}`);
    const truth = Object.values(questions).map((question) => ({ row: name, question, answer }));
    return { truth, failed: [name] };
  }
}

async function answersOf(subject: Subject): Promise<Truth[]> {
  const truth: Truth[] = [];
  const found = (question: string, answer: string) => {
    console.error(`truth: ${subject.name}: ${question}: ${answer}`);
    truth.push({ row: subject.name, question, answer });
  };
  const [edge, tokens] = await Promise.all([askAtEdge(subject), askForTokens(subject)]);
  found(questions.edge, edge);
  found(questions.tokens, tokens);
  for (const [name, kill] of Object.entries(subject.killings)) {
    found(questions[name as keyof typeof questions], await askAfterKilling(subject, kill)); // named like the questions
  }
  found(questions.away, await askWithoutRedis(subject)); // last, because its effect on a gateway may outlast it
  return truth;
}
