import type { ErrorForm, ReplyForm } from './endpoint.ts';

/** Errors in OpenAI's shape. */
export const openAiErrors: ErrorForm = {
  body: (status, { message, param = null, code = null }) => ({
    error: { message, type: status < 500 ? 'invalid_request_error' : 'server_error', param, code },
  }),
  deadEngine,
};

type Varying = Pick<ReplyForm, 'textOpenings' | 'wholeUpToText' | 'eventUpToText' | 'eventAfterText' | 'emptyEvent'>;

/** A reply whose stream consists of unnamed events and ends with `[DONE]`. */
export function openAiForm(varying: Varying): ReplyForm {
  return { ...varying, errorEvent: (message) => dataEvent(deadEngine(message)), end: doneEvent };
}

export const doneEvent = 'data: [DONE]\n\n';

export function dataEvent(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function deadEngine(message: string) {
  return { error: { message, type: 'server_error', code: 500 } };
}
