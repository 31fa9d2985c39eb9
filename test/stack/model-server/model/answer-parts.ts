import type { Choice } from './choose-answer.ts';

/** A part of an answer in the formats that list parts: reasoning, then text or a refusal, then calls. None is empty. */
export type Part = TextPart | CallPart;

export interface TextPart {
  readonly kind: 'reasoning' | 'text' | 'refusal';
  readonly tokens: readonly string[];
}

export interface CallPart {
  readonly kind: 'call';
  readonly id: string;
  readonly name: string;
  /** The arguments, as JSON unless the limit has cut them. */
  readonly tokens: readonly string[];
  /** Whether the tokens are the text of a custom tool. */
  readonly isCustom: boolean;
  /** The name of the group that the tool is in. */
  readonly namespace?: string | undefined;
}

/** A part that the limit left without tokens is not listed. Of an answer that was cut, the last part is incomplete. */
export function partsOf({ reasoning, content, refusal, toolCalls }: Choice): Part[] {
  const parts: Part[] = [
    { kind: 'reasoning', tokens: reasoning },
    { kind: 'text', tokens: content ?? [] },
    { kind: 'refusal', tokens: refusal ?? [] },
    ...toolCalls.map(({ id, name, arguments: tokens, isCustom = false, namespace }) => ({
      ...{ kind: 'call' as const, id, name, tokens, isCustom, namespace },
    })),
  ];
  return parts.filter(({ tokens }) => tokens.length > 0);
}
