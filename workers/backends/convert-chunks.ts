import { type ChatChunk, chatChunkSchema, chatErrorSchema } from '../../shared/chat-completion.ts';
import { BackendError } from './backend-error.ts';
import { type BackendAnswer, presentUsage, readUsage, writtenText } from './convert-answer.ts';

/** A streamed answer as it comes in, event by event, and what of it goes to the client. */
export interface ChunkConverter {
  /**
   * Takes the data of one event; what it returns is ready to be written to the client. Nothing is, until the answer proper
   * has begun (`begun`): a role alone is no token, and until there is one another backend can still take over.
   */
  take(data: string): string;
  begun(): boolean;
  /**
   * The backend has said that it is done: by `[DONE]`, or by a `finish_reason` for each of the choices that it was asked for.
   * An end without this is a stream that broke off (API D4).
   */
  complete(choicesAsked: () => number): boolean;
  usage(): BackendAnswer['usage'];
  /** How many tokens that is at least: a piece is one or more, and no model's tokens are longer than eight characters for long. */
  tokensWritten(): number;
  /** What the model has written so far, cut at a million characters; for counting where no usage was reported. */
  text(): { sample: string; characters: number };
  /** The usage chunk, in the shape of the stream's others, with `choices: []`: the backend's own words if it had any (API D5). */
  usageChunk(tokens: { promptTokens: number; completionTokens: number }): string;
}

const charactersPerTokenMax = 8;
const sampleCharactersMax = 1_000_000;
const heldCharactersMax = 1_048_576;

/** `model` is the name the client knows; chunks that carry another are rewritten. */
export function createChunkConverter({ model }: { model: string }): ChunkConverter {
  let held = '';
  let begun = false;
  let done = false;
  let usage: BackendAnswer['usage'];
  let reportedUsage: unknown;
  let latest: ChatChunk | undefined;
  const written: string[] = [];
  let sampled = 0;
  let characters = 0;
  let pieces = 0;
  const open = new Set<number>();
  const finished = new Set<number>();

  function follow({ choices }: ChatChunk): void {
    for (const { index, delta, finish_reason } of choices) {
      open.add(index);
      if (finish_reason) finished.add(index);
      const text = writtenText(delta);
      if (finish_reason || text !== '') begun = true;
      sample(text);
    }
  }

  function sample(text: string): void {
    characters += text.length;
    if (text !== '') pieces += 1;
    if (sampled < sampleCharactersMax) written.push(text);
    sampled += text.length;
  }

  return {
    take(data) {
      if (data === '[DONE]') {
        done = true;
        return '';
      }
      const { chunk, raw } = parseChunk(data);
      latest = chunk;
      const reported = readUsage(chunk.usage);
      if (reported !== undefined) {
        usage = reported;
        reportedUsage = chunk.usage;
      }
      follow(chunk);
      // The usage has a chunk of its own at the end, if the client asked for it, wherever the backend put it.
      if (chunk.choices.length === 0 && chunk.usage != null) return '';
      held += event(chunk.model === model && chunk.usage === undefined ? raw : present(chunk, model));
      if (!begun && held.length > heldCharactersMax) {
        throw new BackendError('unreadable', `no token within ${heldCharactersMax} characters`);
      }
      if (!begun) return '';
      const ready = held;
      held = '';
      return ready;
    },
    begun: () => begun,
    complete: (choicesAsked) => begun && (done || (finished.size === open.size && finished.size >= choicesAsked())),
    usage: () => usage,
    tokensWritten: () => Math.max(pieces, Math.floor(characters / charactersPerTokenMax)),
    text: () => ({ sample: written.join(''), characters }),
    usageChunk(tokens) {
      return event(JSON.stringify({ ...latest, model, choices: [], usage: reportedUsage ?? presentUsage(tokens) }));
    },
  };
}

function parseChunk(data: string): { chunk: ChatChunk; raw: string } {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    // The parser's own error quotes the text, which is in no log.
    throw new BackendError('unreadable', 'an event is not JSON');
  }
  const parsed = chatChunkSchema.safeParse(value);
  // One that names an error is none, whatever else it holds: passed on, it would be followed by [DONE].
  if (parsed.success && parsed.data.error == null) return { chunk: parsed.data, raw: data };
  const failure = chatErrorSchema.safeParse(value);
  throw new BackendError(failure.success ? 'interrupted' : 'unreadable', failure.data ?? 'an event is not a chunk');
}

function present(chunk: ChatChunk, model: string): string {
  const { usage: _usage, ...rest } = chunk;
  return JSON.stringify({ ...rest, model });
}

/** JSON may stand on several lines, and then each would need a `data:` of its own. */
function event(json: string): string {
  return `data: ${json.includes('\n') ? JSON.stringify(JSON.parse(json)) : json}\n\n`;
}
