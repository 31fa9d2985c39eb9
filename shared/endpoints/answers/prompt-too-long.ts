import { ApiError } from '../../errors.ts';

/**
 * The prompt fits into the context of no backend. `field` is the field of the request with the prompt. Coding agents compact their history
 * on the code (contract.md#ms6-context).
 */
export function promptTooLong(field: string, numbers: { promptTokens?: number; contextTokens?: number }): ApiError {
  const { promptTokens, contextTokens } = numbers;
  const size = promptTokens === undefined ? '' : ` It has ${promptTokens} tokens.`;
  const most = contextTokens === undefined ? '' : ` The context has at most ${contextTokens} tokens.`;
  return new ApiError(
    'VALIDATION_ERROR',
    `${field}: the prompt is too long for the context of this model.${size}${most}`,
    {
      fields: {
        ...(promptTokens !== undefined && { prompt_tokens: promptTokens }),
        ...(contextTokens !== undefined && { context_tokens: contextTokens }),
      },
      openAi: { code: contextCode, param: field },
    },
  );
}

const contextCode = 'context_length_exceeded';

export function isPromptTooLong({ openAi }: ApiError): boolean {
  return openAi.code === contextCode;
}
