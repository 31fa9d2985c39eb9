import { errorFrame } from '../../errors.ts';
import { namedEvent } from '../answers/convert-events.ts';
import type { StreamEnding } from '../definition/error-format.ts';

const sequenceNumber = /"sequence_number":(\d{1,15})[,}]/g;

/**
 * A complete stream needs no further event. One that broke off ends with an `error` event and no `response.completed`
 * (contract.md#g4-responses). The event also has `error`, because SDKs read its type there.
 */
export function createResponseEnding(): StreamEnding {
  let latest = -1;
  return {
    follow(text) {
      // A quote inside of a string is escaped, so this is never a part of the answer.
      for (const [, digits] of text.matchAll(sequenceNumber)) latest = Number(digits);
    },
    complete: () => '',
    broken(failure) {
      const { error } = errorFrame(failure);
      const { code, message, param } = error;
      return namedEvent({ type: 'error', code, message, param, sequence_number: latest + 1, error });
    },
  };
}
