import { z } from 'zod';
import { isObject } from '../../is-object.ts';

/** Fields that several endpoints have. */

const isText = (value: unknown) => typeof value === 'string';

const areTexts = (value: unknown) => Array.isArray(value) && value.every(isText);

export const logitBias = z
  .custom<Record<string, number>>(
    (value) => isObject(value) && Object.values(value).every((bias) => typeof bias === 'number'),
    'expected an object of numbers',
  )
  .meta({ documentedAs: z.record(z.string(), z.number()) });

/** OpenAI allows 4 for `stop`. Model servers search for each of them after every token. */
export const textsMax = 64;
export const areFewTexts = (value: unknown) => Array.isArray(value) && value.length <= textsMax && areTexts(value);

export const fewStops = z
  .custom<string | string[]>(
    (value) => isText(value) || areFewTexts(value),
    `expected a string or an array of at most ${textsMax} strings`,
  )
  .meta({ documentedAs: z.union([z.string(), z.array(z.string()).max(textsMax)]) });

export const temperature = z.number().min(0).max(2);
export const topP = z.number().min(0).max(1);
export const penalty = z.number().min(-2).max(2);

export const streamFlag = z.boolean().meta({ description: 'Whether to stream the response as server-sent events.' });
export const streamOptions = z
  .looseObject({ include_usage: z.boolean().nullish() })
  .meta({ description: 'With `stream` only.' });

/** What the service asks for in `stream_options`: whether there is a usage in every chunk is the operator's setting, `usage_in_chunks`. */
export function withUsageAtEnd(options: unknown): object {
  return Object.assign({}, options, { include_usage: true, continuous_usage_stats: undefined });
}
