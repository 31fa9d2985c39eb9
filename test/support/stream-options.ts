import type { StreamOptions } from '../../shared/endpoints/definition/answer-format.ts';
import { relayedText } from '../../workers/exchange/relayed-text.ts';
import { roomFor } from './answer-room.ts';

type Options = { model: string; apiKey?: string; choices?: number; prompts?: number };

/** The options of a stream, as a worker sets them. `apiKey` is the key of the call of the backend. */
export function streamOptions({ model, apiKey, choices = 1, prompts = 1 }: Options): StreamOptions {
  const relay = (message: string) => relayedText(message, apiKey);
  return { model, requestId: 'req_1', createdAt: 1_700_000_000, relay, budget: roomFor(), choices, prompts };
}
