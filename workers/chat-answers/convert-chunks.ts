import type { ChatChunk } from '../../shared/chat-call/chat-completion.ts';
import { BackendError } from '../exchange/backend-error.ts';
import { presentUsage, writtenText } from './convert-answer.ts';
import { type AnswerProgress, createAnswerProgress } from './follow-answer.ts';
import { nothingWritten, type Written } from './output-guard.ts';
import { parseChunk } from './parse-chunk.ts';
import { createRepeatedChunks } from './repeated-chunk.ts';

/** Converts a streamed answer, event by event, for the client. */
export interface ChunkConverter extends Pick<AnswerProgress, 'begun' | 'complete' | 'usage'> {
  /**
   * Takes the data of one event. Returns what is ready to be written to the client. That is empty until the answer proper has begun,
   * because until then another backend can take over.
   */
  take(data: string): string;
  /** What came with the event that was taken last. */
  written(): Written;
  /** Ends each open choice as a backend would at its limit, in place of the event that was taken last. */
  cut(choicesAsked: number): string;
  /** The least number of tokens written so far: a piece has at least one, and no model's tokens are longer than eight characters on average. */
  tokensWritten(): number;
  /** What the model has written so far, cut at a million characters, for counting if no usage was reported. */
  text(): { sample: string; characters: number };
  /**
   * The usage chunk, in the shape of the stream's other chunks, with `choices: []`: the backend's own usage if it has as many tokens
   * (contract.md#d5-usage-of-a-request).
   */
  usageChunk(tokens: { promptTokens: number; completionTokens: number }): string;
}

const charactersPerTokenMax = 8;
const sampleCharactersMax = 1_000_000;
const heldCharactersMax = 1_048_576;

/** `model`: the name that the client knows; chunks with another name are rewritten. `apiKey`: the key of the call of the backend. */
export function createChunkConverter({
  model,
  apiKey,
}: {
  model: string;
  apiKey?: string | undefined;
}): ChunkConverter {
  const progress = createAnswerProgress();
  const { begun, complete, usage } = progress;
  const repeated = createRepeatedChunks((data, chunk) => present(data, chunk, model));
  const sample = createSample();
  let held = '';
  let latest: () => ChatChunk | undefined = () => undefined;
  let latestWritten = nothingWritten;

  /** What was held back goes in front. */
  function release(ready: string): string {
    if (begun() && held === '') return ready;
    held += ready;
    if (!begun() && held.length > heldCharactersMax) {
      throw new BackendError('unreadable', `no token within ${heldCharactersMax} characters`);
    }
    if (!begun()) return '';
    const heldBefore = held;
    held = '';
    return heldBefore;
  }

  return {
    take(data) {
      latestWritten = nothingWritten;
      if (data === '[DONE]') {
        progress.finish();
        return '';
      }
      const known = repeated.read(data);
      if (known !== undefined) {
        latest = () => parseChunk(data, apiKey);
        latestWritten = progress.followText(known.text);
        sample.add(known.text);
        return release(event(known.sent));
      }
      const chunk = parseChunk(data, apiKey);
      latest = () => chunk;
      latestWritten = progress.follow(chunk);
      for (const { delta } of chunk.choices) sample.add(writtenText(delta));
      repeated.learn(data, chunk);
      // The usage has its own chunk at the end, if the client asked for it, wherever the backend put it.
      if (chunk.choices.length === 0 && chunk.usage != null) return '';
      return release(event(present(data, chunk, model)));
    },
    written: () => latestWritten,
    cut(choicesAsked) {
      // With the role, for a choice of which nothing has come yet.
      const delta = { role: 'assistant' };
      const ends = progress.unfinished(choicesAsked).map((index) => ({ index, delta, finish_reason: 'length' }));
      return ends.map((end) => event(presentChunk({ ...latest(), choices: [end] }, model))).join('');
    },
    ...{ begun, complete, usage, tokensWritten: sample.tokens, text: sample.text },
    usageChunk: (tokens) =>
      event(JSON.stringify({ ...latest(), model, choices: [], usage: presentUsage(tokens, progress.reportedUsage()) })),
  };
}

/** What the model has written, for counting. */
function createSample() {
  const written: string[] = [];
  let sampled = 0;
  let characters = 0;
  let pieces = 0;
  return {
    add(text: string): void {
      if (text === '') return;
      characters += text.length;
      pieces += 1;
      if (sampled < sampleCharactersMax) written.push(text);
      sampled += text.length;
    },
    tokens: () => Math.max(pieces, Math.floor(characters / charactersPerTokenMax)),
    text: () => ({ sample: written.join(''), characters }),
  };
}

/** The data as it came, unless the client uses another name for the model, or the chunk has a usage, which is sent at the end. */
function present(data: string, chunk: ChatChunk, model: string): string {
  if (chunk.model !== model || chunk.usage !== undefined) return presentChunk(chunk, model);
  // Data on several lines would need a `data:` for each line.
  return data.includes('\n') ? JSON.stringify(JSON.parse(data)) : data;
}

function presentChunk(chunk: ChatChunk, model: string): string {
  const { usage: _usage, ...rest } = chunk;
  return JSON.stringify({ ...rest, model });
}

function event(json: string): string {
  return `data: ${json}\n\n`;
}
