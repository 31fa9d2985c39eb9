import { type Tool, unaskedCall } from './choose-tool.ts';
import { nextStep, type TaskStep } from './task-steps.ts';
import {
  answerFor,
  answersResult,
  digest,
  lastUserText,
  type Message,
  pieces,
  refusalFor,
  resultAnswerFor,
  thoughtsFor,
  toolArgumentsFor,
} from './text.ts';

/** One choice, as the tokens that it consists of. */
export interface Choice {
  /** The reasoning before the text. */
  readonly reasoning: readonly string[];
  readonly content: readonly string[] | null;
  readonly refusal: readonly string[] | null;
  readonly toolCalls: readonly ToolCall[];
  readonly finishReason: 'stop' | 'length' | 'tool_calls';
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: readonly string[];
  /** Whether the arguments are the text of a custom tool. */
  readonly isCustom?: boolean;
  /** The name of the group that the tool is in. */
  readonly namespace?: string;
}

/** What the model is asked, in whichever format. */
export interface Conversation {
  readonly messages: readonly Message[];
  /** The tools that it may call. */
  readonly tools: readonly Tool[];
  readonly tokensMax: number;
  /** Whether it quotes the result of a tool if that is the last message. */
  readonly quotesResults: boolean;
  /** Says what a model answers instead of the text for tests, as its tokens. */
  readonly speak?: ((choice: number) => readonly string[]) | undefined;
}

/**
 * What the model answers: text, or calls of the tools that the last user message requests with `call <name>`, or a refusal if that
 * message says `refuse to answer`. It reasons first if the message says `think aloud`. A task is done step by step. If it may call tools
 * and is not told which, it calls one of its own accord, twice, and answers then.
 */
export function chooseAnswer(conversation: Conversation, index: number): Choice {
  const { messages, tools, tokensMax, quotesResults } = conversation;
  const step = nextStep(messages);
  if (typeof step !== 'string' && tools.some(({ name }) => name === step.name)) return stepChoice(conversation, step);
  const names = toolsCalled(conversation);
  const refusal = refusalFor(messages);
  const isFree = !isTold(conversation) && refusal === undefined && step === 'none';
  const unasked = isFree ? unaskedCall(tools, messages) : undefined;
  if (unasked !== undefined) return unaskedChoice(conversation, unasked, index);
  const saying = refusal === undefined && names.length === 0 ? conversation.speak : undefined;
  if (saying !== undefined) return textChoice(conversation, saying(index), false);
  if (quotesResults && answersResult(messages))
    return textChoice(conversation, pieces(resultAnswerFor(messages)), false);
  if (names.length === 0)
    return textChoice(conversation, pieces(refusal ?? answerFor(messages, index)), refusal !== undefined);
  const tokens = pieces(toolArgumentsFor(messages));
  const toolCalls = names.map((name, call) => ({
    id: `call_${digest(messages)}_${index}_${call}`,
    name,
    // The limit applies to all calls of the choice together: each gets what the previous ones left.
    arguments: tokens.slice(0, Math.max(0, tokensMax - call * tokens.length)),
  }));
  const cut = names.length * tokens.length > tokensMax;
  return { reasoning: [], content: null, refusal: null, toolCalls, finishReason: cut ? 'length' : 'tool_calls' };
}

function stepChoice({ messages, tokensMax }: Conversation, step: TaskStep): Choice {
  const tokens = pieces(step.arguments);
  const toolCalls = [{ id: `call_${digest(messages)}`, name: step.name, arguments: tokens.slice(0, tokensMax) }];
  const finishReason = tokens.length > tokensMax ? 'length' : 'tool_calls';
  return { reasoning: [], content: null, refusal: null, toolCalls, finishReason };
}

function unaskedChoice(
  { messages, tokensMax }: Conversation,
  { tool, arguments: text }: NonNullable<ReturnType<typeof unaskedCall>>,
  index: number,
): Choice {
  const tokens = pieces(text);
  const { name, isCustom = false, namespace } = tool;
  const call = { id: `call_${digest(messages)}_${index}`, name, arguments: tokens.slice(0, tokensMax), isCustom };
  const toolCalls = [namespace === undefined ? call : { ...call, namespace }];
  const finishReason = tokens.length > tokensMax ? 'length' : 'tool_calls';
  return { reasoning: [], content: null, refusal: null, toolCalls, finishReason };
}

export function tokensOf({ reasoning, content, refusal, toolCalls }: Choice): number {
  const text = reasoning.length + (content?.length ?? 0) + (refusal?.length ?? 0);
  return toolCalls.reduce((sum, call) => sum + call.arguments.length, text);
}

/** Its tokens, in the order in which they are generated. */
export function contentOf({ reasoning, content, refusal, toolCalls }: Choice): string[] {
  const called = toolCalls.flatMap((call) => call.arguments);
  return [...reasoning, ...(content ?? []), ...(refusal ?? []), ...called];
}

function textChoice({ messages, tokensMax }: Conversation, said: readonly string[], refuses: boolean): Choice {
  const thoughts = pieces(thoughtsFor(messages));
  const cut = thoughts.length + said.length > tokensMax;
  const tokens = said.slice(0, Math.max(0, tokensMax - thoughts.length));
  return {
    reasoning: thoughts.slice(0, tokensMax),
    content: refuses ? null : tokens,
    refusal: refuses ? tokens : null,
    toolCalls: [],
    finishReason: cut ? 'length' : 'stop',
  };
}

function toolsCalled({ tools, messages }: Conversation): string[] {
  return toldIn(lastUserText(messages), tools);
}

/** Whether any user message says which tool to call. */
function isTold({ tools, messages }: Conversation): boolean {
  return messages.some((message) => message.role === 'user' && toldIn(lastUserText([message]), tools).length > 0);
}

function toldIn(text: string, tools: readonly Tool[]): string[] {
  const asked = new Set(Array.from(text.matchAll(/\bcall ([\w-]+)/g), ([, name]) => name));
  return tools.map(({ name }) => name).filter((name) => asked.has(name));
}
