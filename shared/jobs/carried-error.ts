import { z } from 'zod';
import { ApiError, type ErrorCode, errorCodes } from '../errors.ts';

const codes = Object.keys(errorCodes) as [ErrorCode, ...ErrorCode[]]; // the keys of a literal table are its codes

/** A failure as a worker sends it to the ingress: without its cause, which is only in the worker's log. */
export const carriedErrorSchema = z.object({
  code: z.enum(codes),
  message: z.string(),
  fields: z.record(z.string(), z.unknown()),
  headers: z.record(z.string(), z.string()),
  openAi: z.object({ code: z.string().optional(), param: z.string().optional() }).optional(),
  retryAfterMs: z.number().optional(),
});

export type CarriedError = z.infer<typeof carriedErrorSchema>;

export function packError({ code, message, fields, headers, openAi, retryAfterMs }: ApiError): CarriedError {
  const hasOpenAi = Object.keys(openAi).length > 0;
  return {
    code,
    message,
    fields,
    headers,
    ...(hasOpenAi && { openAi }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

export function unpackError({ code, message, fields, headers, openAi = {}, retryAfterMs }: CarriedError): ApiError {
  const known = {
    ...(openAi.code !== undefined && { code: openAi.code }),
    ...(openAi.param !== undefined && { param: openAi.param }),
  };
  const waits = retryAfterMs !== undefined && { retryAfterMs };
  return new ApiError(code, message, { fields, headers, openAi: known, ...waits });
}
