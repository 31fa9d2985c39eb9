import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import type { BodyReader } from './exchange.ts';

/** Server-sent events, or one JSON. */
export type AnswerKind = 'events' | 'JSON';

/** White space, and the bytes of a byte order mark: any answer may begin with them. No reader gets them. */
const skipped = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
/** Of the fields of an event (`data`, `event`, `id`, `retry`) and of a comment. */
const eventBytes = new Set([...'deir:'].map((first) => first.charCodeAt(0)));
const jsonBytes = new Set([...'{['].map((first) => first.charCodeAt(0)));

/**
 * Reads an answer by what it is, which its first byte shows: proxies and servers give streams any media type
 * (contract.md#ms10-media-types). An answer that is neither is `unreadable`. `onBlank` is called for bytes before it: any byte is a sign of
 * life (contract.md#ms8-signs-of-life).
 */
export function readByFirstByte({
  readerOf,
  onBlank,
}: {
  readerOf: (kind: AnswerKind) => BodyReader;
  onBlank: () => void;
}): BodyReader {
  let reader: BodyReader | undefined;
  return {
    take(bytes) {
      if (reader !== undefined) return reader.take(bytes);
      const begin = bytes.findIndex((byte) => !skipped.has(byte));
      if (begin === -1) return onBlank();
      reader = readerOf(kindOf(bytes[begin] ?? 0));
      reader.take(bytes.subarray(begin));
    },
    end: () => (reader ?? readerOf('events')).end(),
    breakOff: (error) => (reader ?? readerOf('events')).breakOff(error),
  };
}

function kindOf(byte: number): AnswerKind {
  if (eventBytes.has(byte)) return 'events';
  if (jsonBytes.has(byte)) return 'JSON';
  throw new BackendError('unreadable', 'the answer is neither an event stream nor JSON');
}
