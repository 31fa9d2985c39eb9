import { textOf } from '../../stack/model-server/endpoint.ts';
import { endpointsByPath } from '../../stack/model-server/endpoints.ts';

/** What a simulated model server answers to this body: the whole reply, and the data of each event of its stream. */
export function backendAnswer(path: string, body: object, { withUsage = true } = {}) {
  const question = endpointsByPath({ countTokens: true }).get(path)?.read(body);
  if (question === undefined || 'refused' in question) throw new Error(`${path} refuses ${JSON.stringify(body)}`);
  const setting = {
    id: '1',
    server: 'simulated',
    created: 1_700_000_000,
    withUsage,
    ignoresLimit: false,
    cachedTokensOf: () => 0,
  };
  const answered = question.answer(setting);
  const { promptTokens, completionTokens } = answered;
  return {
    ...{ promptTokens, completionTokens, whole: answered.whole() },
    events: [...answered.events()].map(({ text }, sent) => dataOf(textOf(text, sent))),
  };
}

function dataOf(event: string): string {
  const data = /^data: (.*)$/m.exec(event)?.[1];
  if (data === undefined) throw new Error(`an event has no data: ${event}`);
  return data;
}
