import type { StreamOptions } from '../../shared/endpoints/definition/answer-format.ts';
import { roomFor } from './answer-room.ts';

type Options = { model: string; choices?: number; prompts?: number };

/** The options of a stream, as a worker sets them. */
export function streamOptions({ model, choices = 1, prompts = 1 }: Options): StreamOptions {
  return { model, requestId: 'req_1', createdAt: 1_700_000_000, budget: roomFor(), choices, prompts };
}
