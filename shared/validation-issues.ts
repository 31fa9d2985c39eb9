import type { z } from 'zod';

/**
 * An issue and its place: `path` is `messages[2].content`, empty for the input itself. `refused` is set if the operator's settings do not
 * allow the value: the name that it is counted by, one of a few.
 */
export type ValidationIssue = { path: string; message: string; refused?: string };

/** The same with the parts of its path. */
export type PathIssue = { path: readonly PropertyKey[]; message: string };

/** Returns every issue of a failed validation by its path, in terms of the input. Values are never repeated. */
export function validationIssuesOf(error: z.ZodError): ValidationIssue[] {
  return pathIssuesOf(error).map(({ path, message }) => ({ path: pathText(path), message }));
}

export function pathIssuesOf(error: z.ZodError): PathIssue[] {
  return error.issues.flatMap((issue): PathIssue[] => {
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'is not known' }));
    }
    return [{ path: issue.path, message: messageOf(issue) }];
  });
}

export function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    const name = shownName(String(part));
    return text === '' ? name : `${text}.${name}`;
  }, '');
}

/** A field without a name is written `""`, because an empty path means the input itself. */
export function shownName(name: string): string {
  return name === '' ? '""' : name;
}

function messageOf(issue: z.core.$ZodIssue): string {
  const message = issue.message.replace(/^Invalid input: /, '');
  return message.charAt(0).toLowerCase() + message.slice(1);
}
