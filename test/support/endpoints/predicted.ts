import { completionSchema } from '../../stack/model-server/completions/answer-completion.ts';
import { messagesSchema } from '../../stack/model-server/messages/read-messages.ts';
import { responseSchema } from '../../stack/model-server/responses/read-response.ts';
import { answerCompletion, answerMessages, answerResponse } from '../../stack/model-server.ts';

/** What the simulated server answers to requests of each endpoint: its texts and its tokens. The model does not matter. */

const model = 'any';

export function predictedCompletion(asked: object) {
  const { choices, ...tokens } = answerCompletion(completionSchema.parse({ model, ...asked }));
  return { ...tokens, texts: choices.map(({ prompt, content }) => [...prompt, ...content].join('')) };
}

export function predictedResponse(asked: object) {
  const { parts, ...tokens } = answerResponse(responseSchema.parse({ model, ...asked }));
  return { ...tokens, ...textsOf(parts) };
}

export function predictedMessage(asked: object) {
  const { parts, ...tokens } = answerMessages(messagesSchema.parse({ model, ...asked }));
  return { ...tokens, ...textsOf(parts) };
}

type Parts = ReturnType<typeof answerResponse>['parts'];

function textsOf(parts: Parts) {
  const textOf = (kind: Parts[number]['kind']) =>
    parts.flatMap((part) => (part.kind === kind ? part.tokens : [])).join('');
  return { text: textOf('text'), reasoning: textOf('reasoning'), refusal: textOf('refusal'), call: textOf('call') };
}
