// Light or dark: the system's setting, until the switch says otherwise.

const KEY = "saccade-theme";

export function startTheme() {
  const kept = read();
  if (kept) document.documentElement.dataset.theme = kept;
}

export function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // a browser that keeps nothing: the switch holds until the page is left
  }
}

function read() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}
