import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import type {
  AnswerAssembler,
  ReportedUsage,
  WholeAnswer,
} from '../../../shared/endpoints/definition/answer-format.ts';
import { endpointAt } from '../../../shared/endpoints/endpoints.ts';
import { streamOptions } from '../stream-options.ts';

export type Json = Record<string, unknown>;
type Given = { model?: string; choices?: number; prompts?: number };

/** What the client of a stream gets, and what is known of the answer. `failed`: the outcome with which the stream broke off. */
export type StreamResult = {
  events: Json[];
  failed: string | undefined;
  complete: boolean;
  usage: ReportedUsage | undefined;
  written: string;
};

/** The tokens of an answer whose backend reported none. */
const counted = { promptTokens: 30, completionTokens: 50 };
const optionsOf = (given: Given) => streamOptions({ model: 'm', ...given });
const textOf = (event: unknown) => (typeof event === 'string' ? event : JSON.stringify(event));

/** Converts the events of a backend as a worker does. After the last one, the final events are sent if the answer is complete. */
export function streamed(endpoint: string, events: readonly unknown[], given: Given = {}): StreamResult {
  const options = optionsOf(given);
  const converter = endpointAt(endpoint).answer.stream?.convert(options);
  if (converter === undefined) throw new Error(`${endpoint} has no streams`);
  let sent = '';
  const failed = faultOf(() => {
    for (const event of events) sent += converter.take(textOf(event));
  });
  const complete = failed === undefined && converter.complete(() => options.choices);
  if (complete) sent += converter.end(converter.usage() ?? counted, { includeUsage: true });
  const { sample: written } = converter.text();
  return { events: eventsIn(sent), failed, complete, usage: converter.usage(), written };
}

/** What the client of a whole answer gets. `failed`: the outcome with which the answer failed. */
export type Whole = { answer: Json; failed: string | undefined; usage: ReportedUsage | undefined; written: string };

/** Assembles the events of a backend as a worker does. */
export function assembled(endpoint: string, events: readonly unknown[], given: Given = {}): Whole {
  const options = optionsOf(given);
  return wholeOf(endpoint, options, () => {
    const assembler: AnswerAssembler | undefined = endpointAt(endpoint).answer.stream?.assembly?.create(options);
    if (assembler === undefined) throw new Error(`answers of ${endpoint} are not assembled`);
    for (const event of events) assembler.take(textOf(event));
    if (!assembler.complete(() => options.choices)) throw new BackendError('interrupted', 'it is not complete');
    return assembler.answer();
  });
}

/** Parses the whole answer of a backend as a worker does. */
export function parsed(endpoint: string, body: unknown, given: Given = {}): Whole {
  return wholeOf(endpoint, optionsOf(given), () => endpointAt(endpoint).answer.parse(textOf(body)));
}

function wholeOf(endpoint: string, options: ReturnType<typeof optionsOf>, read: () => WholeAnswer): Whole {
  const { answer: format } = endpointAt(endpoint);
  const whole: Whole = { answer: {}, failed: undefined, usage: undefined, written: '' };
  whole.failed = faultOf(() => {
    const answer = read();
    whole.usage = answer.usage;
    whole.written = format.writtenIn(answer);
    whole.answer = JSON.parse(String(format.present(answer, answer.usage ?? counted, options)));
  });
  return whole;
}

function faultOf(act: () => void): string | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    if (error instanceof BackendError) return error.fault;
    throw error;
  }
}

function eventsIn(sent: string): Json[] {
  return sent
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => JSON.parse(event.slice(event.indexOf('data: ') + 'data: '.length)));
}
