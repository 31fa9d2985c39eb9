import { errorFrame } from '../../errors.ts';
import type { StreamEnding } from '../definition/error-format.ts';

/** A complete stream ends with `[DONE]`, an interrupted one with a frame that has an error (contract.md#d4-broken-streams). */
export const doneEnding: StreamEnding = {
  complete: () => 'data: [DONE]\n\n',
  broken: (error) => `data: ${JSON.stringify(errorFrame(error))}\n\n`,
};
