const declarations: (() => void)[] = [];

/** ava starts shortly after the first test is declared, so nothing is declared until the last file is loaded. */
export function declareLater(declare: () => void): void {
  declarations.push(declare);
}

export function declareAll(): void {
  for (const declare of declarations.splice(0)) declare();
}
