import { errorFrame } from '../../errors.ts';
import { namedEvent } from '../answers/convert-events.ts';
import { isPromptTooLong } from '../answers/prompt-too-long.ts';
import type { StreamEnding } from '../definition/error-format.ts';

const sequenceNumber = /"sequence_number":(\d{1,15})[,}]/g;

/**
 * A complete stream needs no further event. One that broke off ends with an `error` event and no `response.completed`
 * (contract.md#g4-responses). The event also has `error`, because SDKs read its type there. A prompt that is too long ends as OpenAI ends
 * it, with `response.failed`: Codex compacts its history on the code in it, and on no other event (contract.md#ms6-context).
 */
export function createResponseEnding(): StreamEnding {
  let latest = -1;
  return {
    follow(text) {
      // A quote inside of a string is escaped, so this is never a part of the answer.
      for (const [, digits] of text.matchAll(sequenceNumber)) latest = Number(digits);
    },
    complete: () => '',
    broken(failure, requestId) {
      const { error } = errorFrame(failure);
      const { code, message, param } = error;
      const sequence_number = latest + 1;
      if (!isPromptTooLong(failure)) return namedEvent({ type: 'error', code, message, param, sequence_number, error });
      const failed = { id: `resp_${requestId}`, object: 'response', status: 'failed', output: [] };
      return namedEvent({
        type: 'response.failed',
        sequence_number,
        response: { ...failed, error: { code, message } },
      });
    },
  };
}
