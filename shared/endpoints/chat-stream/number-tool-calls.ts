import { isObject, type Json } from '../../json/json-values.ts';
import { BackendError } from '../answers/backend-error.ts';
import { mapped, withText } from '../answers/with-missing.ts';
import type { SizeBudget } from '../definition/answer-format.ts';

/** Makes an id for a call that has none, from its number in its message. */
type CallId = (number: number) => string;

/** The calls of tools in a message that arrives in parts (contract.md#ms12-tool-calls-and-lists). */
export interface NumberedCalls {
  /**
   * Returns the parts of calls as OpenAI publishes them: the list itself if nothing changes. Their `index` is the number of their call. The
   * first part of a call has an id and a type, and later ones do not repeat these or the name. Fails with `BackendError` if there are too
   * many calls.
   */
  number(parts: readonly unknown[]): readonly Json[];
  /** Does so with the calls in a delta. */
  publish<T extends Json>(delta: T): T;
}

/** `input`: the arguments so far, or undefined if they are too long. */
type Call = { number: number; given: unknown; id: unknown; name: string | undefined; input: string | undefined };

const callsMax = 128;
/** Longer arguments are not checked, because each part would be parsed together with all earlier ones. */
const inputLengthMax = 4_096;
/** Memory of a call besides its texts. */
const callCharacters = 64;

/** Ids of one request: no longer than 40 characters, which is what providers accept. */
export function callIdOf({ requestId }: { requestId: string }, choice: number): CallId {
  return (number) => `call_${requestId.replace('req_', '')}_${choice * callsMax + number}`;
}

/** What is kept of calls is spent of the budget. */
export function createNumberedCalls(idOf: CallId, budget: SizeBudget): NumberedCalls {
  const calls: Call[] = [];

  function continuedBy(part: Json): Call | undefined {
    const { index, id } = part;
    const latest = typeof index === 'number' ? calls.findLast(({ given }) => given === index) : calls.at(-1);
    const named = isText(id) ? calls.findLast((call) => call.id === id && call.given === latest?.given) : undefined;
    const call = named ?? latest;
    return call === undefined || isAnother(call, part) ? undefined : call;
  }

  function begin(part: Json): Json {
    if (calls.length === callsMax)
      throw new BackendError('unreadable', `there are more than ${callsMax} calls of tools`);
    const number = calls.length;
    const { index, id } = part;
    const isUsable = isText(id) && !calls.some((call) => call.id === id);
    const given = typeof index === 'number' ? index : calls.at(-1)?.given;
    budget.spend(callCharacters);
    const call: Call = { number, given, id: undefined, name: undefined, input: '' };
    calls.push(call);
    keep(call, part);
    return withFields(part, { index: number, id: isUsable ? id : idOf(number), type: typeOf(part) });
  }

  function keep(call: Call, part: Json): void {
    const [id, name, input] = [isText(part.id) ? part.id : undefined, nameIn(part), inputIn(part)];
    if (call.id === undefined && id !== undefined) {
      budget.spend(id.length);
      call.id = id;
    }
    if (call.name === undefined && name !== undefined) {
      budget.spend(name.length);
      call.name = name;
    }
    if (call.input === undefined) return;
    const isShort = call.input.length + input.length <= inputLengthMax;
    if (isShort) budget.spend(input.length);
    call.input = isShort ? call.input + input : undefined;
  }

  function proceed(call: Call, part: Json): Json {
    const isNamed = call.name !== undefined;
    keep(call, part);
    const later = withFields(withoutTexts(part, ['id', 'type']), { index: call.number });
    const { function: called } = later;
    const nameless = isNamed && isObject(called) ? withoutTexts(called, ['name']) : called;
    return nameless === called ? later : { ...later, function: nameless };
  }

  function number(parts: readonly unknown[]): readonly Json[] {
    const objects = parts.every(isObject) ? parts : parts.filter(isObject);
    return mapped(objects, (given) => {
      const part = withTextInput(given);
      const call = continuedBy(part);
      return call === undefined ? begin(part) : proceed(call, part);
    });
  }

  return { number, publish: (delta) => withCalls(delta, number) };
}

/** Returns a whole message with its calls as OpenAI publishes them: the message itself if nothing changes. */
export function withWholeCalls<T extends Json>(message: T, idOf: CallId): T {
  return withCalls(message, (calls) => mapped(calls, (call, number) => wholeCall(call, idOf(number))));
}

function withCalls<T extends Json>(message: T, change: (calls: readonly unknown[]) => readonly unknown[]): T {
  const { tool_calls: given, function_call: called } = message;
  const calls = Array.isArray(given) ? change(given) : given;
  const legacy = isObject(called) ? withText(called, 'arguments') : called;
  if (calls === given && legacy === called) return message;
  return {
    ...message,
    ...(calls !== given && { tool_calls: calls }),
    ...(legacy !== called && { function_call: legacy }),
  };
}

function wholeCall(given: unknown, id: string): unknown {
  if (!isObject(given)) return given;
  const call = withTextInput(given);
  const { function: called } = call;
  const whole =
    isObject(called) && called.arguments == null ? { ...call, function: { ...called, arguments: '{}' } } : call;
  return withFields(whole, { id: isText(call.id) ? call.id : id, type: typeOf(call) });
}

/** Returns a part of a call with its arguments as a text: the part itself if they are one. */
function withTextInput(part: Json): Json {
  const { function: called, custom } = part;
  const [textCalled, textCustom] = [
    isObject(called) && withText(called, 'arguments'),
    isObject(custom) && withText(custom, 'input'),
  ];
  const isSame = (textCalled === false || textCalled === called) && (textCustom === false || textCustom === custom);
  return isSame
    ? part
    : { ...part, ...(textCalled && { function: textCalled }), ...(textCustom && { custom: textCustom }) };
}

/**
 * If a server sends no index, or the same one for all calls, the next call begins with a name: another one, or one with another id; without
 * ids also the same name, when the arguments of the present call are complete. Some servers send another id with each part of a call.
 */
function isAnother(call: Call, part: Json): boolean {
  const name = nameIn(part);
  if (name === undefined) return false;
  if (call.name !== undefined && name !== call.name) return true;
  return isText(part.id) && call.id !== undefined ? part.id !== call.id : isJson(call.input);
}

function isJson(text: string | undefined): boolean {
  if (text === undefined) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function nameIn({ function: called, custom }: Json): string | undefined {
  const named = isObject(called) ? called : custom;
  return isObject(named) && isText(named.name) ? named.name : undefined;
}

function inputIn({ function: called, custom }: Json): string {
  const input = isObject(called) ? called.arguments : isObject(custom) ? custom.input : undefined;
  return typeof input === 'string' ? input : '';
}

function typeOf({ type, custom }: Json): unknown {
  if (isText(type)) return type;
  return isObject(custom) ? 'custom' : 'function';
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function withFields(part: Json, fields: Json): Json {
  return Object.entries(fields).every(([name, value]) => part[name] === value) ? part : { ...part, ...fields };
}

/** Without these fields, if they are texts. Null in them means nothing. */
function withoutTexts(part: Json, names: readonly string[]): Json {
  if (!names.some((name) => typeof part[name] === 'string')) return part;
  return Object.fromEntries(Object.entries(part).filter(([name]) => !names.includes(name)));
}
