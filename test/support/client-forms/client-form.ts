export type Tokens = { promptTokens: number; completionTokens: number };

/** A question to a model, whichever endpoint asks it. */
export type Question = { model: string; question: string; stream: boolean; includeUsage: boolean; tokensMax: number };

/** How a stream ended for its client: completely, or by an error in the form of its endpoint. */
export type StreamRead = { text: string } & (
  | { ending: 'answered'; usage: Tokens | undefined }
  | { ending: 'interrupted'; code: string }
);

/** How a client of one endpoint asks, and reads the answer. Written for tests, without the code of the service. */
export interface ClientForm {
  path: string;
  hasStreams: boolean;
  /** Whether the answer is the model server's text. */
  hasText: boolean;
  bodyOf(question: Question): object;
  /** The question in a body, as a model server received it. */
  questionOf(body: unknown): string | undefined;
  /** Undefined for a body that is no complete answer. */
  readWhole(body: unknown): { text: string; usage: Tokens } | undefined;
  /** Undefined for a stream that stops without an end, or is malformed. */
  readStream(text: string): StreamRead | undefined;
  /** The text in the events that arrived completely. */
  textIn(stream: string): string;
}

/** The data of the events in a stream, each with its name. Undefined if one of them is not JSON. Comments are skipped. */
export function eventsIn(stream: string): { name: string | undefined; data: unknown }[] | undefined {
  const events: { name: string | undefined; data: unknown }[] = [];
  for (const block of stream.split('\n\n')) {
    const lines = block.split('\n').filter((line) => line !== '' && !line.startsWith(':'));
    if (lines.length === 0) continue;
    const fieldIn = (field: string) => lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2);
    const data = parseJson(fieldIn('data'));
    if (data === undefined) return undefined;
    events.push({ name: fieldIn('event'), data });
  }
  return events;
}

export function parseJson(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
