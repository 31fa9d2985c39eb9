import { createHoldBack, createSample } from '../answers/convert-events.ts';
import { nothingWritten, type StreamConverter, type StreamOptions } from '../definition/answer-format.ts';
import { type Chunk, createAnswerProgress, parseChunk, presentUsage, usageIn, writtenIn } from './follow-answer.ts';
import { type ChoicesKind, createChunkPresenter } from './present-chunks.ts';
import { createRepeatedChunks } from './repeated-chunk.ts';

const heldCharactersMax = 1_048_576;

/**
 * Converts a stream of chunks. Chunks with another name of the model are rewritten. The usage, if the client asked for it, is the last
 * chunk.
 */
export function createChunkConverter(kind: ChoicesKind, options: StreamOptions): StreamConverter {
  const progress = createAnswerProgress({ ...options, choicesMax: kind.choicesMax });
  const { begun, complete, usage } = progress;
  const presenter = createChunkPresenter(kind, options);
  const repeated = createRepeatedChunks((data, chunk) => presenter.present(data, chunk, chunk));
  const sample = createSample();
  const { release, held } = createHoldBack(begun, heldCharactersMax);
  let latest: () => Chunk | undefined = () => undefined;
  let latestWritten = nothingWritten;
  let heldBefore = '';

  function ends(indexes: readonly number[], end: object): string {
    return indexes.map((index) => event(JSON.stringify(presenter.own(latest(), [{ index, ...end }])))).join('');
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
      if (chunk === undefined) return '';
      latest = () => chunk;
      const published = presenter.take(chunk);
      latestWritten = progress.follow(chunk);
      for (const choice of chunk.choices) sample.add(writtenIn(choice));
      repeated.learn(data, chunk);
      // The usage has its own chunk at the end, if the client asked for it, wherever the backend put it.
      if (chunk.choices.length === 0 && usageIn(chunk) != null) return '';
      return release(event(presenter.present(data, chunk, published)));
    },
    written: () => latestWritten,
    // What was held back was not sent, if no token came before the latest chunk.
    cut: (choicesAsked) =>
      heldBefore + ends(progress.unfinished(choicesAsked), { ...kind.ended, finish_reason: 'length' }),
    id: presenter.id,
    begun,
    complete,
    usage,
    tokensWritten: sample.tokens,
    text: sample.text,
    end(tokens, { includeUsage }) {
      const stops = ends(progress.endedByDone(), { finish_reason: 'stop' });
      if (!includeUsage) return stops;
      const presented = presentUsage(tokens, progress.reportedUsage());
      return stops + event(JSON.stringify({ ...presenter.own(latest(), []), usage: presented }));
    },
  };
}

function event(json: string): string {
  return `data: ${json}\n\n`;
}
