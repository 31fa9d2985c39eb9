import { answerIdIn } from '../answers/answer-id.ts';
import { createHoldBack } from '../answers/hold-back.ts';
import { createSample } from '../answers/sample.ts';
import { nothingWritten, type StreamConverter, type StreamOptions } from '../definition/answer-format.ts';
import { type Chunk, writtenIn } from './choices-schemas.ts';
import { presentUsage } from './convert-answer.ts';
import { createAnswerProgress } from './follow-answer.ts';
import { parseChunk } from './parse-chunk.ts';
import { createRepeatedChunks } from './repeated-chunk.ts';
import { type ChoicesKind, completeChunk } from './required-properties.ts';

const heldCharactersMax = 1_048_576;

/** Converts a stream of chunks. Chunks with another name of the model are rewritten. The usage, if the client asked for it, is the last chunk. */
export function createChunkConverter(kind: ChoicesKind, options: StreamOptions): StreamConverter {
  const { model, choices: asked } = options;
  const progress = createAnswerProgress({ choicesMax: kind.choicesMax, asked });
  const { begun, complete, usage } = progress;
  const repeated = createRepeatedChunks((data, chunk) => present(data, chunk));
  const sample = createSample();
  const { release, held } = createHoldBack(begun, heldCharactersMax);
  let latest: () => Chunk | undefined = () => undefined;
  let latestWritten = nothingWritten;
  let heldBefore = '';
  let id: string | undefined;

  /** The data as it came, unless something in it has to be replaced, or the chunk has a usage, which is sent at the end. */
  function present(data: string, chunk: Chunk): string {
    const whole = completeChunk(chunk, kind, options);
    if (whole !== chunk || chunk.model !== model || chunk.usage !== undefined) return presentChunk(whole);
    // Data on several lines would need a `data:` for each line.
    return data.includes('\n') ? JSON.stringify(JSON.parse(data)) : data;
  }

  function presentChunk(chunk: Chunk): string {
    const { usage: _usage, ...rest } = chunk;
    return JSON.stringify({ ...rest, model });
  }

  /** A chunk of ours, with the head of the backend's. */
  function ownChunk(choices: Chunk['choices']): Chunk {
    return completeChunk({ ...latest(), choices }, kind, options);
  }

  return {
    take(data) {
      latestWritten = nothingWritten;
      heldBefore = held();
      if (data === '[DONE]') {
        progress.finish();
        return '';
      }
      const known = repeated.read(data);
      if (known !== undefined) {
        latest = () => parseChunk(data);
        latestWritten = progress.followText(known.text);
        sample.add(known.text);
        return release(event(known.sent));
      }
      const chunk = parseChunk(data);
      latest = () => chunk;
      id ??= answerIdIn(chunk);
      latestWritten = progress.follow(chunk);
      for (const choice of chunk.choices) sample.add(writtenIn(choice));
      repeated.learn(data, chunk);
      // The usage has its own chunk at the end, if the client asked for it, wherever the backend put it.
      if (chunk.choices.length === 0 && chunk.usage != null) return '';
      return release(event(present(data, chunk)));
    },
    written: () => latestWritten,
    cut(choicesAsked) {
      const ends = progress
        .unfinished(choicesAsked)
        .map((index) => ({ index, ...kind.ended, finish_reason: 'length' }));
      // What was held back was not sent, if no token came before the latest chunk.
      return heldBefore + ends.map((end) => event(presentChunk(ownChunk([end])))).join('');
    },
    ...{ id: () => id, begun, complete, usage, tokensWritten: sample.tokens, text: sample.text },
    end(tokens, { includeUsage }) {
      if (!includeUsage) return '';
      const reported = presentUsage(tokens, progress.reportedUsage());
      return event(JSON.stringify({ ...ownChunk([]), model, usage: reported }));
    },
  };
}

function event(json: string): string {
  return `data: ${json}\n\n`;
}
