// The chosen colours, before anything is painted. No module: it must run at once.

(() => {
  const STORE = "ohmo.theme";
  const root = document.documentElement;
  const stored = () => {
    try {
      return localStorage.getItem(STORE) ?? "auto";
    } catch {
      return "auto"; // storage is switched off
    }
  };
  const show = (theme) => (theme === "auto" ? root.removeAttribute("data-theme") : root.setAttribute("data-theme", theme));
  show(stored());
  root.turnTheme = () => {
    const order = ["auto", "light", "dark"];
    const next = order[(order.indexOf(root.getAttribute("data-theme") ?? "auto") + 1) % 3];
    try {
      localStorage.setItem(STORE, next);
    } catch {
      // it holds until the page is closed
    }
    show(next);
    return next;
  };
})();
