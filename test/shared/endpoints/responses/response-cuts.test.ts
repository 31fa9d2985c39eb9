import test from 'ava';
import { createResponseConverter } from '../../../../shared/endpoints/responses/response-events.ts';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { partedStream } from '../../../support/endpoints/parted-stream.ts';
import { namedEvents, sdkResponse } from '../../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const tools = [
  { type: 'function', name: 'weather' },
  { type: 'function', name: 'time' },
];
const asked = (input: string, more: object = {}) => ({ model: 'm', stream: true, input, ...more });
const streams: Record<string, readonly string[]> = {
  text: backendAnswer('/v1/responses', asked('Grüße 👩‍👩‍👧‍👦')).events,
  'reasoning and text': backendAnswer('/v1/responses', asked('think aloud')).events,
  'a refusal after reasoning': backendAnswer('/v1/responses', asked('think aloud and refuse to answer')).events,
  'two function calls': backendAnswer('/v1/responses', asked('call weather and call time', { tools })).events,
  'several parts of an item, a summary, a custom call and items that take turns': partedStream,
};

/** The texts that these events have brought so far, by their place. */
function textsIn(sent: string): string[] {
  const texts = new Map<string, string>();
  for (const { name, data } of namedEvents(sent)) {
    if (!name.endsWith('.delta')) continue;
    const place = `${data.output_index} ${name} ${data.content_index ?? data.summary_index}`;
    texts.set(place, `${texts.get(place) ?? ''}${data.delta}`);
  }
  return [...texts.values()].sort();
}

type Part = { text?: string; refusal?: string };
type Item = { content?: Part[]; summary?: Part[]; arguments?: string; input?: string };

/** The texts of a response that are not empty. */
function textsOf(output: readonly Item[]): string[] {
  const parts = output.flatMap(({ content = [], summary = [] }) => [...content, ...summary]);
  const texts = [...parts.flatMap(({ text, refusal }) => [text, refusal])];
  const calls = output.flatMap((item) => [item.arguments, item.input]);
  return [...texts, ...calls].filter((text) => text !== undefined && text !== '').sort() as string[];
}

for (const [title, events] of Object.entries(streams)) {
  test(`${title}, cut at its limit at any event: the SDK takes what was delivered as an incomplete response`, async (t) => {
    for (const at of events.keys()) {
      const converter = createResponseConverter(streamOptions({ model: 'alias' }));
      const ready = events.slice(0, at + 1).map((data) => converter.take(data));
      // What comes with the event that exceeds the limit is not delivered. Without a token before it, nothing was.
      const before = ready.slice(0, -1).join('') + converter.cut(1);
      const all = before + converter.end({ promptTokens: 7, completionTokens: at }, { includeUsage: true });
      const about = `cut at event ${at}, ${JSON.parse(events[at] ?? '').type}`;
      const sent = namedEvents(all);
      const last = sent.at(-1);
      t.is(last?.name, 'response.incomplete', about);
      t.deepEqual(
        sent.map(({ data }) => data.type),
        sent.map(({ name }) => name),
        about,
      );
      t.deepEqual(
        sent.map(({ data }) => data.sequence_number),
        [...sent.keys()],
        about,
      );
      t.like(last?.data.response, {
        ...{ model: 'alias', status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } },
        usage: { input_tokens: 7, output_tokens: at, total_tokens: 7 + at },
      });
      if (at === 0) continue; // no SDK takes a stream that has nothing but its end
      const { response } = await sdkResponse(all);
      t.is(response.status, 'incomplete', about);
      t.deepEqual(textsOf(response.output as Item[]), textsIn(before), about);
      assertEachIsEnded(all, about);
    }

    function assertEachIsEnded(sent: string, about: string): void {
      const names = namedEvents(sent).map(({ name }) => name);
      const count = (name: string) => names.filter((each) => each === name).length;
      for (const what of ['output_item', 'content_part', 'reasoning_summary_part']) {
        t.is(count(`response.${what}.done`), count(`response.${what}.added`), `${about}: ${what}`);
      }
    }
  });
}
