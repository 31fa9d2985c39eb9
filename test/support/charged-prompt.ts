import { readCall } from '../../shared/endpoints/definition/read-call.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import { countPromptTokens } from '../../workers/failover/count-tokens.ts';
import { anyField } from './read-chat.ts';

type Asked = { endpoint: string; request: { model?: unknown } };

/**
 * The prompt tokens that are charged if the backend reported none: what the tokenizer counts, at least half of what admission estimates of
 * the client's request.
 */
export async function chargedPrompt({ endpoint: path, request }: Asked): Promise<number> {
  const endpoint = endpointAt(path);
  const model = typeof request.model === 'string' ? request.model : 'm';
  const value = { ...request, model };
  const models = { [model]: { tier: '', pool: '', endpoints: [endpoint.name], outputTokensMax: 1_000_000 } };
  const call = readCall(endpoint, { value, text: JSON.stringify(value) }, { models, aliases: {}, rule: anyField });
  return Math.max(await countPromptTokens(call), Math.ceil(call.cost.promptTokens / 2));
}
