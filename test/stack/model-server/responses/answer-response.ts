import { type Part, partsOf } from '../model/answer-parts.ts';
import { chooseAnswer, tokensOf } from '../model/choose-answer.ts';
import type { Tool } from '../model/choose-tool.ts';
import { type Demo, demoTokens } from '../model/demo-answers.ts';
import { promptTokensOf } from '../model/text.ts';
import { messagesOfResponse, type OfferedTool, type ResponseRequest } from './read-response.ts';

export interface ResponseAnswer {
  readonly parts: readonly Part[];
  /** Whether the limit cut it. */
  readonly incomplete: boolean;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** The tokens of the reasoning, which `completionTokens` includes. */
  readonly reasoningTokens: number;
}

/** What the model answers to a response request. Tests use it to predict a reply and its token counts. */
export function answerResponse(request: ResponseRequest, demo?: Demo): ResponseAnswer {
  const messages = messagesOfResponse(request);
  const tokensMax = request.max_output_tokens ?? Number.POSITIVE_INFINITY;
  const { model } = request;
  const speak = demo && (() => demoTokens({ model, messages }, demo));
  const choice = chooseAnswer({ messages, tools: toolsOf(request), tokensMax, quotesResults: true, speak }, 0);
  return {
    parts: partsOf(choice),
    incomplete: choice.finishReason === 'length',
    promptTokens: promptTokensOf(messages),
    completionTokens: tokensOf(choice),
    reasoningTokens: choice.reasoning.length,
  };
}

/** The tools of the request and those that its items add, also in groups. */
function toolsOf({ tools, input, tool_choice: toolChoice }: ResponseRequest): Tool[] {
  if (toolChoice === 'none') return [];
  const added =
    typeof input === 'string' ? [] : input.flatMap((item) => (item.type === 'additional_tools' ? item.tools : []));
  return [...(tools ?? []), ...added].flatMap((tool) => {
    if (tool.type !== 'namespace') return toolOf(tool);
    const { name: namespace = '', tools: grouped = [] } = tool;
    return grouped.flatMap(toolOf).map((each) => ({ ...each, namespace }));
  });
}

function toolOf({ type, name, description, parameters: schema }: OfferedTool): Tool[] {
  if (name === undefined) return [];
  if (type === 'function') return [{ name, schema }];
  if (type !== 'custom') return [];
  const runsScripts = typeof description === 'string' && description.includes('tools: { exec_command(');
  return [{ name, isCustom: true, ...(runsScripts && { runsScripts }) }];
}
