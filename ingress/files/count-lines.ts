import { lineBytesMax } from '../../shared/batches/batch.ts';
import { createLineSplitter, type FileLine } from '../../shared/batches/split-lines.ts';
import { endpoints } from '../../shared/endpoints/routes.ts';
import { estimateTokens } from '../../shared/endpoints/tokens/estimate-tokens.ts';
import { validationError } from '../../shared/errors.ts';
import { exceededJsonBound } from '../../shared/json/json-bounds.ts';
import { isObject } from '../../shared/json/json-values.ts';

/** `tokens` is an estimate for all prompts. */
export type LineCount = { lines: number; tokens: number };

/** How many lines a file may have for each request. Lines of white space take time in each worker that reads them. */
const allLinesPerLine = 10;

/**
 * Counts the lines of an input file and the tokens of their prompts as the file arrives. Fails with `VALIDATION_ERROR` for a line beyond
 * the limit or too long, which it names, for too many lines of white space, and for an empty file. Other errors of a line are found while
 * its batch is `validating`; here such a line counts as plain text (contract.md#f2-input-files).
 */
export function createCountLines({ linesMax }: { linesMax: number }) {
  const splitter = createLineSplitter({ bytesMax: lineBytesMax });
  const count = { lines: 0, tokens: 0 };

  function take({ number, bytes }: FileLine): void {
    if (++count.lines > linesMax) throw refuse(`line ${number}: a file has at most ${linesMax} lines`);
    if (bytes === undefined) throw refuse(`line ${number}: is longer than ${lineBytesMax} bytes`);
    count.tokens += estimateLine(bytes);
  }

  return {
    push(chunk: Uint8Array): void {
      splitter.push(chunk).forEach(take);
      const allLinesMax = linesMax * allLinesPerLine;
      if (splitter.lines() > allLinesMax) throw refuse(`has more than ${allLinesMax} lines, with those of white space`);
    },
    end(): LineCount {
      splitter.end().forEach(take);
      if (count.lines === 0) throw refuse('is empty');
      return count;
    },
  };
}

export type CountLines = ReturnType<typeof createCountLines>;

function refuse(message: string) {
  return validationError([{ path: 'file', message }]);
}

/** A line that is not an object within the bounds of JSON counts as text: its batch will fail. */
function estimateLine(bytes: Buffer): number {
  const text = bytes.toString();
  const line = mayBeObject(text) && exceededJsonBound(bytes) === undefined ? parseLine(text) : undefined;
  const endpoint = endpoints.find(({ path, inBatches }) => inBatches && path === line?.url);
  if (endpoint === undefined || !isObject(line?.body)) return estimateTokens(text);
  return endpoint.request.estimatePrompt(line.body, JSON.stringify(line.body));
}

/** A cheap check before parsing, because all lines of a file can be invalid. */
function mayBeObject(text: string): boolean {
  return /^\s*\{.*\}\s*$/s.test(text);
}

function parseLine(text: string): { url?: unknown; body?: unknown } | undefined {
  try {
    return JSON.parse(text) as { url?: unknown; body?: unknown }; // it is an object, because it is in braces
  } catch {
    return undefined;
  }
}
